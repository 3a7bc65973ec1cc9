// Processes and threads that end in every way: no crash, no hang, and the files a host alone would leave.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { openDatabase } from './support/driver.mjs';

const folder = mkdtempSync(join(tmpdir(), 'quota-core-lifecycle-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const child = fileURLToPath(new URL('support/lifecycle-child.mjs', import.meta.url));

const integrityOf = (db) => db.prepare('PRAGMA integrity_check').get().integrity_check;

/** Runs the child to its end; what it left on disk, and how it ended. */
async function endOf(how, addon) {
  const name = `${how.replace(/\W+/g, '-')}-${addon}.db`;
  const process_ = spawn(process.execPath, [child, how, join(folder, name), addon], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  process_.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  const deadline = setTimeout(() => process_.kill('SIGKILL'), 30_000);
  if (how === 'SIGTERM') process_.stdout.once('data', () => setTimeout(() => process_.kill('SIGTERM'), 50));
  process_.stdout.resume();
  const [code, signal] = await once(process_, 'close');
  clearTimeout(deadline);
  const left = readdirSync(folder)
    .filter((file) => file.startsWith(name))
    .map((file) => file.slice(name.length))
    .sort();
  const db = openDatabase(join(folder, name));
  const integrity = integrityOf(db);
  const rows = db.prepare('SELECT count(*) AS n FROM rate_limit_usage').get().n;
  db.close();
  return { code, signal, left, integrity, rows, stderr };
}

const WAYS = {
  'natural end': { code: 0, signal: null },
  'natural end after close': { code: 0, signal: null },
  'work pending': { code: 0, signal: null },
  'process.exit': { code: 7, signal: null },
  'process.exit in a transaction': { code: 7, signal: null },
  'uncaught exception': { code: 1, signal: null },
  // Windows has no SIGTERM: Node ends the process and reports the signal all the same.
  SIGTERM: { code: null, signal: 'SIGTERM' },
};

for (const [how, { code, signal }] of Object.entries(WAYS)) {
  test(`${how}: ends as it should, with the files of a host alone`, async () => {
    const [ours, control] = await Promise.all([endOf(how, 'with'), endOf(how, 'without')]);
    assert.deepEqual([ours.code, ours.signal], [code, signal], ours.stderr);
    assert.deepEqual([control.code, control.signal], [code, signal], control.stderr);
    assert.equal(ours.integrity, 'ok');
    assert.deepEqual(ours.left, control.left);
    if (how !== 'SIGTERM') assert.equal(ours.rows, 1, 'what was committed is there, what was not is not');
    if (how === 'uncaught exception') assert.match(ours.stderr, /on purpose/);
  });
}

test('50 worker threads load, use and end in four ways', async () => {
  const file = join(folder, 'workers.db');
  const host = openDatabase(file);
  host.exec('PRAGMA journal_mode = WAL');
  host.exec(`CREATE TABLE rate_limit_usage (
    id INTEGER PRIMARY KEY, platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL, kind TEXT NOT NULL,
    tokens INTEGER NOT NULL DEFAULT 0, created_at_ms INTEGER NOT NULL)`);
  const ends = ['close', 'exit', 'terminate', 'leave'];
  const work = Array.from({ length: 50 }, async (_, index) => {
    const workerData = { file, keyId: index + 1, ends: ends[index % ends.length] };
    const worker = new Worker(new URL('support/lifecycle-worker.mjs', import.meta.url), { workerData });
    const ended = once(worker, 'exit');
    const [used] = await once(worker, 'message');
    if (workerData.ends === 'terminate') await worker.terminate();
    await ended;
    return used;
  });
  assert.deepEqual(await Promise.all(work), Array(50).fill(20));
  assert.equal(host.prepare('SELECT count(*) AS n FROM rate_limit_usage').get().n, 1000);
  assert.equal(integrityOf(host), 'ok');
  host.close();
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('workers')),
    ['workers.db'],
  );
});
