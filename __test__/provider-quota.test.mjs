// Provider quota across the boundary: contexts, both rule books, the host's transactions, arguments that make no sense.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import quotaCore from '../index.js';
import { all, isOpen, openDatabase } from './support/driver.mjs';
import { tempFolder } from './support/temp.mjs';
import { readTrace } from './support/traces.mjs';

const { schemaSql } = readTrace('ratelimit', 'quota-state-p');
const T0 = Date.parse('2026-08-01T00:00:00.000Z');
const both = ['corrected', 'recorded'];

/** An instance on a database in memory, with a clock that the test sets. */
function open(t, { compat = 'corrected', tables = true } = {}) {
  const db = openDatabase(':memory:');
  if (tables) for (const sql of schemaSql) db.exec(sql);
  const warnings = [];
  const at = { now: T0 };
  const core = quotaCore.createQuotaCore({
    compat,
    database: () => db,
    clock: () => at.now,
    logger: { warn: (...args) => warnings.push(args) },
  });
  t.after(() => {
    core.close();
    if (isOpen(db)) db.close();
  });
  return { core, db, at, warnings };
}

const header = (keyId, limit, remaining, more) => ({
  platform: 'cerebras',
  keyId,
  source: 'header',
  limit,
  remaining,
  ...more,
});

const respond = (status, headers) => new Response(null, { status, headers });
const pool = (core) => core.parseQuotaObservationsFromResponse(respond(429, {}))[0]?.quotaPoolKey;

test('contexts reach through awaits, nest, and do not meet', async (t) => {
  const { core } = open(t);
  assert.equal(core.getQuotaObservationContext(), undefined);
  const seen = [];
  const run = (platform, ms) =>
    core.runWithQuotaObservationContext({ platform }, async () => {
      await sleep(ms);
      seen.push([platform, pool(core)]);
      const inner = await core.runWithQuotaObservationContext({ platform: 'ovh', modelId: platform }, async () => {
        await sleep(1);
        return pool(core);
      });
      seen.push([platform, inner, pool(core)]);
      return platform;
    });
  assert.deepEqual(await Promise.all([run('groq', 4), run('cerebras', 2)]), ['groq', 'cerebras']);
  assert.deepEqual(
    seen.filter(([platform]) => platform === 'groq'),
    [
      ['groq', 'groq::account'],
      ['groq', 'ovh::groq', 'groq::account'],
    ],
  );
  assert.deepEqual(
    seen.filter(([platform]) => platform === 'cerebras'),
    [
      ['cerebras', 'cerebras::shared'],
      ['cerebras', 'ovh::cerebras', 'cerebras::shared'],
    ],
  );
  assert.equal(core.getQuotaObservationContext(), undefined);
});

test('instances have contexts of their own', (t) => {
  const [a, b] = [open(t).core, open(t).core];
  a.runWithQuotaObservationContext({ platform: 'groq' }, () => {
    assert.equal(b.getQuotaObservationContext(), undefined);
    assert.equal(pool(b), undefined);
  });
});

test('explicit fields win over the context, one by one', (t) => {
  const { core } = open(t);
  const context = { platform: 'openrouter', keyId: 4, modelId: 'x:free', endpoint: '/ctx', providerAccountId: 'a' };
  core.runWithQuotaObservationContext(context, () => {
    const [seen] = core.parseQuotaObservationsFromResponse(respond(429, {}), {
      keyId: 0,
      modelId: null,
      endpoint: '/own',
    });
    assert.deepEqual(
      [seen.keyId, seen.modelId, seen.quotaPoolKey, seen.endpoint, seen.providerAccountId],
      [0, 'x:free', 'openrouter::free', '/own', 'a'],
    );
  });
});

test('any object with status and headers.get will do', (t) => {
  const { core } = open(t);
  const read = (response) => core.parseQuotaObservationsFromResponse(response, { platform: 'groq' });
  const headers = new Map([['x-ratelimit-limit-requests', '30']]);
  assert.equal(read({ status: 200, headers })[0].limit, 30);
  for (const nothing of [undefined, null, {}, { get: () => 7 }, { get: () => undefined }]) {
    assert.deepEqual(read({ status: 500, headers: nothing }), []);
  }
  assert.deepEqual(read({ headers: null }), []);
});

test('durations and huge resets', (t) => {
  const reset = (compat, value) =>
    open(t, { compat }).core.parseQuotaObservationsFromResponse(respond(200, { 'x-ratelimit-reset-requests': value }), {
      platform: 'groq',
    })[0].resetAt;
  assert.equal(reset('corrected', '1h30m15s'), '2026-08-01T01:30:15.000Z');
  assert.equal(reset('corrected', '250ms'), '2026-08-01T00:00:00.250Z');
  assert.equal(reset('corrected', '7.66s'), '2026-08-01T00:00:07.660Z');
  assert.equal(reset('corrected', '1e16'), null);
  assert.equal(reset('recorded', '7.66s'), null);
  assert.throws(() => reset('recorded', '1e16'), RangeError);
});

test('Retry-After is seconds or a real date', (t) => {
  const wait = (compat, value) =>
    open(t, { compat }).core.parseQuotaObservationsFromResponse(respond(429, { 'retry-after': value }), {
      platform: 'custom',
    })[0].retryAfterMs;
  for (const compat of both) {
    assert.equal(wait(compat, '30'), 30_000);
    assert.equal(wait(compat, 'Sat, 01 Aug 2026 00:01:00 GMT'), 60_000);
    assert.equal(wait(compat, '86401'), 86_400_000);
    assert.equal(wait(compat, 'soon'), null);
  }
  assert.deepEqual([wait('corrected', '1.5'), wait('recorded', '1.5')], [1500, 0]);
  for (const value of ['-5', 'in 5', '5 6', '12/31/2099']) {
    assert.equal(wait('corrected', value), null, value);
    assert.notEqual(wait('recorded', value), null, value);
  }
});

test('a closed connection: empty, or as recorded a TypeError', (t) => {
  for (const compat of both) {
    const { core, db } = open(t, { compat });
    core.recordQuotaObservation(header(1, 10, 5));
    db.close();
    const calls = [
      [() => core.getQuotaStateForKeys(), []],
      [() => core.getKeyQuotaHeadroom('cerebras'), new Map()],
      [() => core.recordQuotaObservation(header(1, 10, 5)), null],
      [() => core.recordQuotaObservationsFromResponse(respond(429, {}), { platform: 'groq' }), []],
    ];
    for (const [call, empty] of calls) {
      if (compat === 'recorded')
        assert.throws(call, { name: 'TypeError', message: 'The database connection is not open' });
      else assert.deepEqual(call(), empty);
    }
    assert.deepEqual(core.orderKeysByRemainingQuota('groq', 'm', [2, 1]), [2, 1]);
  }
});

test('resets are measured by the clock of the instance', (t) => {
  const { core, at } = open(t);
  core.recordQuotaObservation(header(1, 10, 1, { resetAt: '2026-08-01T00:00:10.000Z' }));
  assert.deepEqual(core.getKeyQuotaHeadroom('cerebras'), new Map([[1, 0.1]]));
  at.now = T0 + 10_000;
  assert.deepEqual(core.getKeyQuotaHeadroom('cerebras'), new Map([[1, 0.1]]));
  assert.equal(core.getQuotaStateForKeys()[0].remaining, 1);
  at.now = T0 + 15_000;
  assert.deepEqual(core.getKeyQuotaHeadroom('cerebras'), new Map([[1, 1]]));
  const [state] = core.getQuotaStateForKeys();
  assert.deepEqual([state.remaining, state.resetAt], [10, null]);
});

test('a clock that steps back reads anew', (t) => {
  for (const [compat, expected] of [
    ['corrected', 0],
    ['recorded', 0.5],
  ]) {
    const { core, db, at } = open(t, { compat });
    core.recordQuotaObservation(header(1, 10, 5));
    core.getKeyQuotaHeadroom('cerebras');
    db.exec('UPDATE provider_quota_state SET remaining_value = 0');
    at.now = T0 - 1;
    assert.equal(core.getKeyQuotaHeadroom('cerebras').get(1), expected);
  }
});

test('what the host rolls back was never recorded', (t) => {
  const { core, db } = open(t);
  core.recordQuotaObservation(header(1, 10, 5));
  db.exec('BEGIN');
  core.recordQuotaObservation(header(1, 10, 2));
  db.exec('ROLLBACK');
  core.invalidateKeyQuotaHeadroom('cerebras');
  assert.equal(core.getKeyQuotaHeadroom('cerebras').get(1), 0.5);
  assert.equal(all(db, 'SELECT id FROM provider_quota_observations').length, 1);
});

test('an observation that is refused leaves no half behind', (t) => {
  const { core, db, warnings } = open(t);
  core.recordQuotaObservation(header(1, 10, 5));
  db.exec('DROP TABLE provider_quota_observations');
  for (let n = 0; n < 3; n += 1) assert.equal(core.recordQuotaObservation(header(1, 10, 0)), null);
  assert.equal(all(db, 'SELECT remaining_value AS n FROM provider_quota_state')[0].n, 5);
  assert.deepEqual(
    warnings.map(([tag]) => tag),
    ['quota:provider'],
  );
});

test('a host without the tables', (t) => {
  const { core, warnings } = open(t, { tables: false });
  assert.deepEqual(core.getQuotaStateForKeys(), []);
  assert.deepEqual(core.getKeyQuotaHeadroom('groq'), new Map());
  assert.equal(core.recordQuotaObservation({ platform: 'groq' }), null);
  assert.equal(warnings.length, 1);
});

test('what is recorded is answered, with a UUID and the account', (t) => {
  const { core, db } = open(t);
  const recorded = core.recordQuotaObservation(
    header(1, 10, 5, { providerAccountId: 'acct', observedAt: 'not a date' }),
  );
  assert.match(recorded.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(recorded.observedAt, '2026-08-01 00:00:00.000');
  assert.equal(all(db, 'SELECT id FROM provider_quota_observations')[0].id, recorded.id);
  assert.equal(core.getQuotaStateForKeys()[0].providerAccountId, 'acct');
});

test('the kept headroom cannot be changed from outside', (t) => {
  const { core } = open(t);
  core.recordQuotaObservation(header(1, 10, 5));
  core.getKeyQuotaHeadroom('cerebras').clear();
  assert.equal(core.getKeyQuotaHeadroom('cerebras').get(1), 0.5);
});

test('keys in order of what they have left', (t) => {
  const { core } = open(t);
  core.recordQuotaObservation(header(1, 10, 2));
  core.recordQuotaObservation(header(2, 10, 9));
  assert.deepEqual(core.orderKeysByRemainingQuota('cerebras', 'm', [4, 1, 3, 2]), [2, 4, 3, 1]);
  for (const keyId of [1, 2]) {
    core.recordQuotaObservation({ platform: 'groq', keyId, source: 'header', limit: 10, remaining: keyId });
  }
  assert.deepEqual(core.orderKeysByRemainingQuota('groq', 'm', [1, 2]), [1, 2], 'a pool of the account');
  const keyIds = [1, 2];
  core.orderKeysByRemainingQuota('cerebras', null, keyIds);
  assert.deepEqual(keyIds, [1, 2], 'the list handed in stays');
});

test('a file of its own has the tables', (t) => {
  const file = join(tempFolder(t), 'own.db');
  for (const expected of [0, 1]) {
    const core = quotaCore.createQuotaCore({ database: file });
    assert.equal(core.getQuotaStateForKeys().length, expected);
    assert.notEqual(core.recordQuotaObservation(header(1, 10, 5)), null);
    assert.equal(core.getKeyQuotaHeadroom('cerebras').get(1), 0.5);
    core.close();
  }
  writeFileSync(file, 'this is not a database, however long the text may be. '.repeat(100));
  assert.throws(() => quotaCore.createQuotaCore({ database: file }), { code: 'ERR_QUOTA_OPEN' });
});

test('headroom factors', (t) => {
  const { core } = open(t);
  assert.equal(core.headroomFactor(80, 100), 1);
  assert.equal(core.headroomFactor(100, 100), 0.1);
  assert.equal(core.headroomFactor(75, 100, { rampStart: 0.5, floor: 0 }), 0.5);
  assert.equal(core.headroomFactor(100, 100, { rampStart: 7, floor: -1 }), 0.1);
  for (const budget of [null, undefined, 0, Number.NaN]) assert.equal(core.headroomFactor(10, budget), 1);
  assert.equal(core.rateWindowHeadroomFactor(1), 0.1);
  assert.equal(core.rateWindowHeadroomFactor(0.8), 1);
  for (const unknown of [null, Number.NaN]) assert.equal(core.rateWindowHeadroomFactor(unknown, {}), 1);
});

test('wrong types are told, numbers without sense are not recorded', (t) => {
  const { core, db } = open(t);
  const wrong = [
    () => core.inferQuotaPoolKey(5),
    () => core.inferQuotaPoolKey('groq', 5),
    () => core.isSharedPool(null),
    () => core.getKeyQuotaHeadroom(),
    () => core.parseQuotaObservationsFromResponse(null, { platform: 'groq' }),
    () => core.recordQuotaObservation({ platform: 7 }),
    () => core.recordQuotaObservation({ platform: 'groq', keyId: '1' }),
    () => core.recordQuotaObservation({ platform: 'groq', limit: '10' }),
    () => core.recordQuotaObservation({ platform: 'groq', resetAt: 5 }),
    () => core.runWithQuotaObservationContext('groq', () => {}),
    () => core.runWithQuotaObservationContext({}, null),
    () => core.orderKeysByRemainingQuota('groq', 'm', 5),
    () => core.orderKeysByRemainingQuota('groq', 'm', ['1']),
  ];
  for (const call of wrong)
    assert.throws(call, { name: 'TypeError', code: 'ERR_QUOTA_INVALID_ARGUMENT' }, String(call));
  const odd = core.recordQuotaObservation({
    platform: 'groq',
    limit: Number.NaN,
    remaining: Infinity,
    statusCode: -Infinity,
  });
  assert.deepEqual([odd.limit, odd.remaining, odd.statusCode], [null, null, null]);
  assert.equal(core.recordQuotaObservation({ platform: 'groq', keyId: Number.NaN }), null);
  assert.equal(all(db, 'SELECT id FROM provider_quota_observations').length, 1);
});
