// One cell of the close matrix, run as a process of its own:
//   node close-cell.mjs '{"driver":…,"ending":…,"order":…,"addon":true,"file":…}'
// Opens the host's database, uses it with or without the addon, lets go of it in the way asked for, and prints the files
// that are there at that moment. What is there after the process ended, the parent looks up itself.
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { isMainThread, Worker, workerData } from 'node:worker_threads';

const cell = isMainThread ? JSON.parse(process.argv[2]) : workerData;
const report = (what) => console.log(JSON.stringify(what));
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const files = () => readdirSync(dirname(cell.file)).sort();

// The connection is reachable only through this object: the endings that are about garbage drop it, for the others it
// stays reachable, so that they do not depend on when a collection happens.
async function useHost() {
  const loadAddon = async () => (cell.addon ? (await import('../../index.js')).default : null);
  const before = cell.order === 'addon-first' ? await loadAddon() : null;
  const { openDatabase } = await import('./driver.mjs');
  const holder = { db: openDatabase(cell.file, { driver: cell.driver }) };
  const quotaCore = before ?? (await loadAddon());
  holder.db.exec('PRAGMA journal_mode = WAL');
  if (quotaCore) {
    holder.core = quotaCore.createQuotaCore({ database: () => holder.db, logger: silent });
    exercise(holder.core);
  }
  holder.db
    .prepare(
      "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, created_at_ms) VALUES ('h', 'm', 1, 'request', ?)",
    )
    .run(Date.now());
  return holder;
}

// Leaves every kind of cached statement behind.
function exercise(core) {
  const limits = { rpm: 10, rpd: 100, tpm: 1000, tpd: 10_000 };
  core.recordRequest('p', 'm', 1);
  core.recordTokens('p', 'm', 1, 5);
  core.setCooldown('p', 'm', 1, 60_000);
  core.isOnCooldown('p', 'm', 1);
  core.canMakeRequest('p', 'm', 1, limits);
  core.canUseTokens('p', 'm', 1, 1, limits);
  core.getActiveCooldownsForKeys([1]);
}

const collect = async () => {
  for (let round = 0; round < 10; round += 1) {
    globalThis.gc();
    await setImmediate();
  }
};

const endings = {
  async close(holder) {
    holder.db.close();
    // Using the instance on must neither crash nor bring files back.
    if (holder.core) exercise(holder.core);
    report(files());
  },
  async 'close twice attached'(holder) {
    // A second instance on the same connection shares it with the first.
    if (holder.core) {
      const { default: quotaCore } = await import('../../index.js');
      exercise(quotaCore.createQuotaCore({ database: holder.db, logger: silent }));
    }
    holder.db.close();
    report(files());
  },
  async 'detach, close'(holder) {
    holder.core?.close();
    holder.db.close();
    report(files());
  },
  async 'close in transaction'(holder) {
    holder.db.exec('BEGIN IMMEDIATE');
    if (holder.core) exercise(holder.core);
    holder.db.close();
    report(files());
  },
  async dispose(holder) {
    holder.db[Symbol.dispose]();
    report(files());
  },
  async gc(holder) {
    globalThis.kept = null;
    holder.db = null;
    holder.core = null;
    await collect();
    report(files());
  },
  // The instance lives on and was told, by its provider, that the connection is gone.
  async 'gc, instance kept'(holder) {
    holder.db = null;
    if (holder.core) exercise(holder.core);
    await collect();
    report(files());
  },
  async 'natural end'() {},
  async 'process.exit'() {
    process.exit(0);
  },
  async 'uncaught exception'() {
    process.on('uncaughtException', () => process.exit(0));
    setTimeout(() => {
      throw new Error('expected');
    });
  },
};

const workerEndings = {
  async 'worker end'() {},
  async 'worker process.exit'() {
    process.exit(0);
  },
  async 'worker terminate'() {
    const { parentPort } = await import('node:worker_threads');
    parentPort.postMessage('ready');
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  },
};

async function inWorker() {
  const worker = new Worker(new URL(import.meta.url), { workerData: cell });
  const exited = once(worker, 'exit');
  if (cell.ending === 'worker terminate') {
    await once(worker, 'message');
    await worker.terminate();
  }
  await exited;
  report(files());
}

if (isMainThread && cell.ending in workerEndings) {
  await inWorker();
} else {
  globalThis.kept = await useHost();
  const ending = isMainThread ? endings[cell.ending] : workerEndings[cell.ending];
  await ending(globalThis.kept);
}
