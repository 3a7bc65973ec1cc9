// Enforcement, recording, snapshots and selection of quota sharing, by the number of keys in the pool.

import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { PlainShare } from '../plain-share.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../..');

export const name = 'quota-sharing';
export const sizes = [20, 1000];
export const title = (keys) => `Quota sharing on a WAL file, a pool of ${keys} keys and 3 limits`;

const NOW = 1_790_000_000_000;
const POOL = 'pool';
const DIMENSIONS = [
  { unit: 'tokens', window: '5h', limit: 1e12 },
  { unit: 'requests', window: 'hourly', limit: 1e9 },
  { unit: 'usd', window: 'monthly', limit: 1e9 },
];
const BUCKET_MS = { '5h': 18_000_000, hourly: 3_600_000, monthly: 2_592_000_000 };
const REQUEST = { apiKeyId: 'key-7', connectionId: 'c1', provider: 'kimi' };
const COUNTER = { poolId: POOL, unit: 'tokens', window: '5h' };
const TARGETS = Array.from({ length: 50 }, (_, index) => ({
  executionKey: `target-${index}`,
  connectionId: `c${index}`,
  weight: 1 + (index % 7),
}));

function fill(db, keys) {
  const add = db.prepare('INSERT INTO quota_consumption VALUES (?, ?, ?, ?, ?)');
  const allocate = db.prepare("INSERT INTO quota_allocations VALUES (?, ?, ?, NULL, NULL, 'hard')");
  db.transaction(() => {
    db.prepare("INSERT INTO quota_pools VALUES (?, 'c1', 'pool', '2026-01-01', 'group-demo')").run(POOL);
    db.prepare("INSERT INTO quota_pool_connections (pool_id, connection_id) VALUES (?, 'c1')").run(POOL);
    db.prepare("INSERT INTO provider_plans VALUES ('c1', 'kimi', ?, 'manual', '2026-01-01')").run(
      JSON.stringify(DIMENSIONS),
    );
    for (let index = 0; index < keys; index++) {
      allocate.run(POOL, `key-${index}`, 100 / keys);
      for (const { unit, window } of DIMENSIONS) {
        const bucket = Math.floor(NOW / BUCKET_MS[window]);
        for (const at of [bucket - 1, bucket])
          add.run(`key-${index}`, `${POOL}:${unit}:${window}`, at, index + 0.1, NOW);
      }
    }
  })();
  db.pragma('wal_checkpoint(TRUNCATE)');
}

export function setup(keys) {
  const folder = mkdtempSync(join(tmpdir(), 'quota-core-bench-'));
  const open = (file) => {
    const db = new Database(join(folder, file));
    db.pragma('journal_mode = WAL');
    // As the host opens it: a commit does not wait for the disk.
    db.pragma('synchronous = NORMAL');
    // A host's own table on the same file, written between two requests.
    db.exec('CREATE TABLE host_log (id INTEGER PRIMARY KEY, text TEXT)');
    return db;
  };
  const files = { ours: open('ours.db'), plain: open('plain.db') };
  const core = createQuotaCore({ database: files.ours, clock: () => NOW, env: {} });
  core.ensureQuotaSchema();
  const model = createQuotaCore({ database: files.plain });
  model.ensureQuotaSchema();
  for (const db of Object.values(files)) fill(db, keys);
  return {
    keys,
    core,
    store: core.getSqliteQuotaStore(),
    sql: new PlainShare(files.plain, NOW),
    log: Object.fromEntries(
      Object.entries(files).map(([side, db]) => [side, db.prepare("INSERT INTO host_log (text) VALUES ('served')")]),
    ),
    close() {
      core.close();
      model.close();
      for (const db of Object.values(files)) db.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const cases = [
  {
    name: 'enforce',
    contenders: ({ core, sql }) => ({
      ours: () => core.enforceQuotaShare(REQUEST),
      'better-sqlite3': () => sql.enforce(REQUEST),
    }),
  },
  {
    name: 'consume',
    contenders: ({ store, sql }) => ({
      ours: () => store.consume('key-7', COUNTER, 1),
      'better-sqlite3': () => sql.consume('key-7', COUNTER, 1),
    }),
  },
  {
    name: 'consume, then enforce',
    contenders: ({ core, store, sql }) => ({
      ours: async () => {
        await store.consume('key-7', COUNTER, 1);
        return core.enforceQuotaShare(REQUEST);
      },
      'better-sqlite3': async () => {
        await sql.consume('key-7', COUNTER, 1);
        return sql.enforce(REQUEST);
      },
    }),
  },
  {
    name: 'a write of the host, then enforce',
    contenders: ({ core, sql, log }) => ({
      ours: async () => {
        log.ours.run();
        return core.enforceQuotaShare(REQUEST);
      },
      'better-sqlite3': async () => {
        log.plain.run();
        return sql.enforce(REQUEST);
      },
    }),
  },
  {
    name: 'snapshot of all keys',
    contenders: ({ store, sql }) => ({
      ours: () => store.poolUsageWithDimensions(POOL, DIMENSIONS),
      'better-sqlite3': () => sql.usage(POOL, DIMENSIONS),
    }),
  },
  {
    name: 'selection among 50 targets',
    contenders: ({ core, sql }) => {
      const state = { credit: new Map(), slots: new Map(), saturatedUntil: new Map() };
      const maxConcurrentByConnection = Object.fromEntries(TARGETS.map(({ connectionId }) => [connectionId, 8]));
      const options = { maxConcurrentByConnection };
      return {
        ours: () => core.selectQuotaShareTarget(TARGETS, 'combo', 'm', NOW, options).decrementInflight(),
        'better-sqlite3': () => sql.select(TARGETS, state, NOW).release(),
      };
    },
  },
];
