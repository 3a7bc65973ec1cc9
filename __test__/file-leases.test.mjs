// `leases: 'file'`: processes that share one SQLite file see each other's requests in flight.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import { all, openDatabase } from './support/driver.mjs';
import { runNode, startNode } from './support/run-node.mjs';
import { tempFolder } from './support/temp.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const NONE = { rpm: null, rpd: null, tpm: null, tpd: null };
const LIMIT = 50;

function coreOn(t, database, options = {}) {
  const core = createQuotaCore({ database, leases: 'file', env: {}, ...options });
  t.after(() => core.close());
  return core;
}

/** A host's connection to a file that has the tables. */
function hostFile(t, name) {
  const file = join(tempFolder(t), name);
  coreOn(t, file).close();
  const db = openDatabase(file);
  t.after(() => db.close());
  return db;
}

async function runFour(file, options) {
  const children = await Promise.all(
    Array.from({ length: 4 }, () => runNode('file-lease-child.mjs', [file, JSON.stringify(options)])),
  );
  return children.map(({ code, stdout, stderr }) => {
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  });
}

/** The most spans that hold one instant. */
function mostAtOnce(spans) {
  const edges = spans.flatMap(([from, to]) => [
    [from, 1],
    [to, -1],
  ]);
  edges.sort(([a, up], [b, down]) => a - b || up - down);
  let now = 0;
  let most = 0;
  for (const [, step] of edges) {
    now += step;
    most = Math.max(most, now);
  }
  return most;
}

test('4 processes, 50 in flight: never 51', async (t) => {
  const file = join(tempFolder(t), 'quota.db');
  coreOn(t, file);
  const env = { MAX_CONCURRENT_REQUESTS_PER_KEY: String(LIMIT) };
  const results = await runFour(file, { attempts: 500, parallel: 25, holdMs: 25, limits: NONE, env });
  const spans = results.flatMap((result) => result.spans);
  const refused = results.reduce((sum, result) => sum + result.refused, 0);
  t.diagnostic(`${spans.length} admitted, ${refused} refused, ${mostAtOnce(spans)} at once`);
  assert.ok(refused > 100, 'there was more demand than room');
  assert.ok(mostAtOnce(spans) <= LIMIT);
  assert.ok(mostAtOnce(spans) >= LIMIT - 5);
  assert.ok(results.every(({ warned }) => !warned));
});

test('4 processes, 50 a minute: never 51', async (t) => {
  const file = join(tempFolder(t), 'quota.db');
  const core = coreOn(t, file);
  const results = await runFour(file, {
    attempts: 300,
    parallel: 4,
    holdMs: 3,
    limits: { ...NONE, rpm: LIMIT },
    env: {},
  });
  const { gates } = core.explain({ platform: 'groq', modelId: 'm', keyId: 1, limits: { ...NONE, rpm: LIMIT } });
  const gate = gates.find(({ axis }) => axis === 'rpm');
  const spans = results.flatMap((result) => result.spans);
  t.diagnostic(`${spans.length} admitted, ${gate.used} settled, the others cancelled`);
  assert.deepEqual([gate.used, gate.inFlight], [LIMIT, 0]);
});

test('leases of a process that is killed count until their age, and are collected', async (t) => {
  const file = join(tempFolder(t), 'quota.db');
  const clock = { now: Date.now() };
  const core = coreOn(t, file, { clock: () => clock.now });
  const options = { attempts: 7, limits: NONE, env: {}, hang: true };
  const child = startNode('file-lease-child.mjs', [file, JSON.stringify(options)]);
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');
  assert.equal(core.inFlightForKey('groq', 1), 7);
  assert.equal(core.canMakeRequest('groq', 'm', 1, { ...NONE, rpm: 7 }), false);
  clock.now += 121_000;
  assert.equal(core.inFlightForKey('groq', 1), 0);
  assert.equal(core.admit({ platform: 'groq', modelId: 'm', keyId: 1, limits: { ...NONE, rpm: 1 } }).admitted, true);
  const db = openDatabase(file);
  t.after(() => db.close());
  assert.equal(all(db, 'SELECT COUNT(*) AS n FROM quota_core_leases')[0].n, 1, 'the others are gone from the table');
});

test('two instances on one file: each sees what the other takes and ends', (t) => {
  const file = join(tempFolder(t), 'quota.db');
  const clock = { now: Date.now() };
  const [one, other] = [coreOn(t, file, { clock: () => clock.now }), coreOn(t, file, { clock: () => clock.now })];
  const wanted = {
    platform: 'groq',
    modelId: 'm',
    keyId: 1,
    limits: { ...NONE, rpm: 2, tpm: 100 },
    estimatedTokens: 30,
  };
  const first = one.admit(wanted);
  const second = other.admit(wanted);
  assert.notEqual(first.leaseId, second.leaseId);
  const { refusals } = one.admit(wanted);
  assert.deepEqual(
    refusals.map(({ axis, inFlight }) => [axis, inFlight]),
    [['rpm', 2]],
  );
  const lease = one.acquireLease('groq', 'm', 1, 50);
  assert.equal(other.inFlightForKey('groq', 1), 3);
  assert.equal(other.canUseTokens('groq', 'm', 1, 1, { tpm: 110, tpd: null }), false);
  one.releaseLease(lease);
  assert.equal(other.inFlightForKey('groq', 1), 2);
  assert.deepEqual(
    other.settle(first.leaseId, { tokens: 5 }),
    { settled: true, expired: false },
    'by the other process',
  );
  assert.deepEqual(one.settle(first.leaseId, { tokens: 5 }), { settled: false, expired: false });
  assert.equal(other.cancel(second.leaseId), true);
  assert.equal(one.inFlightForKey('groq', 1), 0);
  assert.deepEqual(one.getRateLimitStatus('groq', 'm', 1, wanted.limits).rpm, { used: 1, limit: 2 });

  const late = one.admit({ ...wanted, limits: NONE });
  clock.now += 125_000;
  other.admit({ ...wanted, limits: NONE });
  assert.deepEqual(one.settle(late.leaseId), { settled: true, expired: true }, 'although the other collected it');
});

test('a host connection: the table is made there, and a rollback takes leases back', (t) => {
  const db = hostFile(t, 'host.db');
  const core = coreOn(t, db);
  assert.equal(core.inFlightForKey('groq', 1), 0);
  db.exec('BEGIN');
  core.acquireLease('groq', 'm', 1, 1);
  assert.equal(core.inFlightForKey('groq', 1), 1);
  db.exec('ROLLBACK');
  assert.equal(core.inFlightForKey('groq', 1), 0);
  core.acquireLease('groq', 'm', 1, 1);
  assert.equal(all(db, 'SELECT COUNT(*) AS n FROM quota_core_leases')[0].n, 1);
  core.resetLeases();
  assert.equal(all(db, 'SELECT COUNT(*) AS n FROM quota_core_leases')[0].n, 0);
});

test('without a database, leases are in memory', (t) => {
  const core = coreOn(t, undefined, { logger: { warn() {} } });
  const lease = core.acquireLease('groq', 'm', 1, 1);
  assert.equal(core.inFlightForKey('groq', 1), 1);
  core.releaseLease(lease);
  assert.equal(core.inFlightForKey('groq', 1), 0);
  const { leaseId } = core.admit({ platform: 'groq', modelId: 'm', keyId: 1, limits: { ...NONE, rpm: 1 } });
  assert.deepEqual(core.settle(leaseId), { settled: true, expired: false });
});

test('an id is never given twice: not after a rollback of the host, not in another file', (t) => {
  const [first, second] = [hostFile(t, 'first.db'), hostFile(t, 'second.db')];
  let db = first;
  const core = coreOn(t, () => db);
  const take = (modelId) => core.admit({ platform: 'p', modelId, keyId: 1, limits: NONE, estimatedTokens: 5 }).leaseId;
  const used = (modelId) => core.getRateLimitStatus('p', modelId, 1, NONE).tpm.used;

  take('any');
  first.exec('BEGIN');
  const undone = take('undone');
  first.exec('ROLLBACK');
  const other = take('other');
  assert.deepEqual(core.settle(undone, { tokens: 100 }), { settled: true, expired: true }, 'used, although taken back');
  assert.equal(core.settle(undone).settled, false);
  assert.equal(used('undone'), 100);
  assert.equal(used('other'), 0);
  assert.equal(core.settle(other).settled, true);
  assert.equal(used('other'), 5);

  const before = take('before');
  db = second;
  take('after');
  assert.deepEqual(core.settle(before, { tokens: 100 }), { settled: true, expired: true });
  assert.equal(used('after'), 0);
  assert.equal(used('before'), 100);
});

test('leases of a file that comes back are what they were, and are settled once', (t) => {
  const [first, second] = [hostFile(t, 'first.db'), hostFile(t, 'second.db')];
  let db = first;
  const core = coreOn(t, () => db);
  const { leaseId } = core.admit({ platform: 'p', modelId: 'm', keyId: 1, limits: NONE, estimatedTokens: 5 });
  db = second;
  assert.equal(core.inFlightForKey('p', 1), 0);
  db = first;
  assert.equal(core.inFlightForKey('p', 1), 1);
  assert.deepEqual(core.settle(leaseId), { settled: true, expired: false });
  assert.deepEqual(core.settle(leaseId), { settled: false, expired: false });
  assert.deepEqual(core.getRateLimitStatus('p', 'm', 1, NONE).tpm.used, 5);
});

test('a lease table that the host drops: leases are settled all the same', (t) => {
  const db = hostFile(t, 'host.db');
  const core = coreOn(t, db);
  const { leaseId } = core.admit({ platform: 'p', modelId: 'm', keyId: 1, limits: NONE, estimatedTokens: 5 });
  db.exec('DROP TABLE quota_core_leases');
  assert.equal(core.inFlightForKey('p', 1), 0);
  assert.equal(core.settle(leaseId).settled, true);
  assert.equal(core.settle(leaseId).settled, false);
  assert.equal(core.getRateLimitStatus('p', 'm', 1, NONE).rpm.used, 1);
});
