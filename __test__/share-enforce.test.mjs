// Enforcement: when it answers, what it does when something fails, and when a refused key may come again.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { HOUR, limit, START, shareHost } from './support/share-host.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../lib/core.js');

const settled = (promise) => !inspect(promise).includes('<pending>');
const tags = (warnings) => warnings.map(([tag]) => tag);
const REQUESTS_10 = [limit('requests', 'hourly', 10)];

test('with cached signals the promise is settled when it is returned', async (t) => {
  const { core, ask } = shareHost(t, {
    pool: { limits: [limit('requests', 'hourly', 10), limit('percent', '5h', 100)] },
  });
  let asked = 0;
  core.registerSaturationFetcher('kimi', async () => {
    asked += 1;
    return 0.25;
  });
  const first = ask();
  assert.equal(settled(first), false, 'the signal has to be asked for');
  assert.deepEqual(await first, { kind: 'allow', deprioritize: false });
  assert.equal(asked, 2);
  const second = ask('k2');
  assert.equal(settled(second), true);
  assert.deepEqual(await second, { kind: 'allow', deprioritize: false });
  assert.equal(asked, 2);
});

test('nothing to enforce is settled at once, whatever the signals', async (t) => {
  const { ask } = shareHost(t, { saturation: () => assert.fail('asked') });
  const promise = ask('nobody');
  assert.equal(settled(promise), true);
  assert.deepEqual(await promise, { kind: 'allow' });
});

test('a plan that changes is enforced at the next request', async (t) => {
  const { core, ask, spend } = shareHost(t, { pool: { limits: REQUESTS_10 } });
  await spend({ requests: 8 });
  assert.equal((await ask()).kind, 'allow');
  core.upsertProviderPlan('c1', 'kimi', [limit('usd', 'daily', 1), limit('requests', 'hourly', 8)], 'manual');
  assert.equal((await ask()).kind, 'block');
  core.deleteProviderPlan('c1');
  assert.equal((await ask()).kind, 'allow');
});

test('a transaction of the host counts for itself, and not when it is rolled back', async (t) => {
  const { db, ask, spend } = shareHost(t, { pool: { limits: REQUESTS_10 } });
  assert.equal((await ask()).kind, 'allow');
  db.exec('BEGIN');
  await spend({ requests: 10 });
  assert.equal((await ask()).kind, 'block');
  db.exec('ROLLBACK');
  assert.equal((await ask()).kind, 'allow');
});

// Fail open

test('without a database every request passes, with one warning each', async () => {
  const warnings = [];
  const core = createQuotaCore({ logger: { warn: (...line) => warnings.push(line) } });
  const request = { apiKeyId: 'k1', connectionId: 'c1', provider: 'kimi' };
  assert.deepEqual(await core.enforceQuotaShare(request), { kind: 'allow' });
  assert.deepEqual(tags(warnings), ['quota:enforce']);
  await core.recordConsumption({ ...request, cost: {} });
  assert.deepEqual(tags(warnings), ['quota:enforce', 'quota:record']);
  core.close();
  await assert.rejects(core.enforceQuotaShare(request), { code: 'ERR_QUOTA_CLOSED' });
});

test('a request that waits for a signal passes when the instance is closed meanwhile', async (t) => {
  let answer;
  const signal = new Promise((resolve) => {
    answer = resolve;
  });
  const { core, ask, spend } = shareHost(t, {
    pool: { limits: [...REQUESTS_10, limit('percent', '5h', 100)] },
    saturation: () => signal,
  });
  await spend({ requests: 10 });
  const asked = ask();
  await new Promise(setImmediate);
  core.close();
  answer(1);
  assert.deepEqual(await asked, { kind: 'allow' });
});

for (const table of [
  'quota_allocations',
  'quota_pools',
  'quota_pool_connections',
  'provider_plans',
  'quota_allocation_model_caps',
  'quota_consumption',
]) {
  test(`without ${table} the request passes where unsure, with one warning; with it again all is as before`, async (t) => {
    const { db, ask, spend, warnings } = shareHost(t, {
      pool: { limits: [...REQUESTS_10, limit('tokens', '5h', 100)] },
    });
    await spend({ requests: 9, tokens: 5 });
    assert.equal((await ask('k1', { model: 'm' })).kind, 'allow');
    warnings.length = 0;
    db.exec(`ALTER TABLE ${table} RENAME TO hidden`);
    assert.equal((await ask('k1', { model: 'm' })).kind, 'allow');
    assert.deepEqual(tags(warnings), ['quota:enforce']);
    assert.match(warnings[0][1], new RegExp(table));
    db.exec(`ALTER TABLE hidden RENAME TO ${table}`);
    await spend({ requests: 1 });
    assert.equal((await ask('k1', { model: 'm' })).kind, 'block');
    assert.deepEqual(tags(warnings), ['quota:enforce']);
  });
}

test('signals that fail count as none, with one warning for all of them', async (t) => {
  const { ask, spend, warnings } = shareHost(t, {
    pool: { limits: [...REQUESTS_10, limit('percent', '5h', 100)] },
    saturation: async () => {
      throw new Error('the provider is away');
    },
  });
  await spend({ requests: 6 });
  assert.deepEqual(await ask(), { kind: 'allow', deprioritize: false });
  assert.deepEqual(tags(warnings), ['quota:enforce']);
  assert.match(warnings[0][1], /the provider is away/);
  await spend({ requests: 4 });
  assert.equal((await ask()).kind, 'block', 'what is counted still holds');
});

test("a host's store that fails counts as nothing, with one warning", async (t) => {
  const down = async () => {
    throw new Error('store down');
  };
  const quotaStore = { peek: down, poolConsumedTotal: down, consume: down };
  const { core, ask, spend, warnings } = shareHost(t, {
    quotaStore,
    pool: { limits: [...REQUESTS_10, limit('usd', 'daily', 5)] },
  });
  core.setModelCap({ poolId: 'p', apiKeyId: 'k1', model: 'm', capValue: 1, capUnit: 'tokens' });
  assert.deepEqual(await ask('k1', { model: 'm' }), { kind: 'allow', deprioritize: false });
  assert.deepEqual(tags(warnings), ['quota:enforce']);
  await spend({ requests: 1, usd: 2 });
  assert.deepEqual(tags(warnings), ['quota:enforce', 'quota:record']);
});

test('a request that names nobody passes, with a warning', async (t) => {
  const { core, warnings } = shareHost(t);
  for (const request of [undefined, null, {}, { apiKeyId: 1, connectionId: 'c', provider: 'p' }]) {
    assert.deepEqual(await core.enforceQuotaShare(request), { kind: 'allow' });
    await core.recordConsumption(request);
  }
  assert.deepEqual(tags(warnings), Array(4).fill(['quota:enforce', 'quota:record']).flat());
});

test('a full disk or a locked file costs the record, not the request', async (t) => {
  const { db, ask, spend, warnings } = shareHost(t, { pool: { limits: REQUESTS_10 } });
  db.exec('PRAGMA query_only = 1');
  await spend({ requests: 10 });
  assert.deepEqual(tags(warnings), ['quota:record']);
  assert.equal((await ask()).kind, 'allow');
  db.exec('PRAGMA query_only = 0');
});

// Refusals

test('refusals are told to the listeners, and a listener that throws changes nothing', async (t) => {
  const { core, ask, spend, warnings } = shareHost(t, { pool: { limits: REQUESTS_10 } });
  const events = [];
  const end = core.onQuotaExceeded((event) => events.push(event));
  core.onQuotaExceeded(async () => {
    throw new Error('listener');
  });
  await spend({ requests: 10 });
  const decision = await ask();
  assert.equal(decision.kind, 'block');
  assert.equal(decision.httpStatus, 429);
  assert.match(decision.reason, /kimi/);
  assert.doesNotMatch(decision.reason, /k1|c1|\bp\b/);
  await new Promise(setImmediate);
  const event = { apiKeyId: 'k1', provider: 'kimi', connectionId: 'c1', reason: 'global-saturated' };
  assert.deepEqual(events, [event]);
  assert.deepEqual(tags(warnings), ['quota:listener']);
  end();
  await ask();
  await new Promise(setImmediate);
  assert.equal(events.length, 1);
});

test('a model cap is per hour, key and model', async (t) => {
  const { core, ask, spend, clock } = shareHost(t);
  core.setModelCap({ poolId: 'p', apiKeyId: 'k1', model: 'm', capValue: 100, capUnit: 'tokens' });
  await spend({ tokens: 100 }, 'k1', { model: 'm' });
  const blocked = await ask('k1', { model: 'm' });
  assert.equal(blocked.kind, 'block');
  assert.match(blocked.reason, /model-cap/);
  assert.equal((await ask('k1', { model: 'other' })).kind, 'allow');
  assert.equal((await ask('k2', { model: 'm' })).kind, 'allow');
  clock.now += blocked.retryAfterSeconds * 1000;
  assert.equal((await ask('k1', { model: 'm' })).kind, 'allow');
});

/** Spends, is refused, and comes back: at the promised second, not a second before. */
async function comesBack(t, { pool, saturation = () => 0, costs, key = 'k1' }) {
  const { ask, spend, clock } = shareHost(t, { pool, saturation });
  clock.now = START + 1234;
  for (const [owner, cost, at] of costs) {
    clock.now = START + at;
    await spend(cost, owner);
  }
  const refused = await ask(key);
  assert.equal(refused.kind, 'block');
  assert.ok(refused.retryAfterSeconds >= 1, `${refused.retryAfterSeconds}`);
  const now = clock.now;
  clock.now = now + refused.retryAfterSeconds * 1000;
  assert.equal((await ask(key)).kind, 'allow', 'at the promised second');
  clock.now = now + (refused.retryAfterSeconds - 1) * 1000;
  assert.equal((await ask(key)).kind, 'block', 'a second before');
}

test('a refusal says when the counters alone let the key through again', async (t) => {
  await comesBack(t, { pool: { limits: REQUESTS_10 }, costs: [['k2', { requests: 10 }, 0]] });
  await comesBack(t, {
    pool: { limits: [limit('tokens', 'hourly', 100)] },
    saturation: () => 0.9,
    costs: [
      ['k1', { tokens: 40 }, 0],
      ['k1', { tokens: 30 }, HOUR],
    ],
  });
  // The later of two limits counts.
  await comesBack(t, {
    pool: { limits: [limit('tokens', 'hourly', 100), limit('usd', 'daily', 2)] },
    costs: [['k1', { tokens: 200, usd: 3 }, 0]],
  });
});

test("through a host's store the time is the latest that the values allow", async (t) => {
  const built = shareHost(t, { pool: { limits: REQUESTS_10 } });
  const { core, ask, spend, clock } = shareHost(t, { quotaStore: built.store, pool: { limits: REQUESTS_10 } });
  core.setModelCap({ poolId: 'p', apiKeyId: 'k1', model: 'm', capValue: 1, capUnit: 'requests' });
  await spend({ requests: 10 }, 'k1', { model: 'm' });
  for (const model of [undefined, 'm']) {
    const refused = await ask('k1', { model });
    assert.equal(refused.kind, 'block');
    const { now } = clock;
    for (const host of [built, { clock }]) host.clock.now = now + refused.retryAfterSeconds * 1000;
    assert.equal((await ask('k1', { model })).kind, 'allow');
    for (const host of [built, { clock }]) host.clock.now = now;
  }
});

test('what never clears by itself has no time: a share of nothing, a percentage the provider reports', async (t) => {
  const none = shareHost(t, { pool: { weights: { k1: 0, k2: 50 }, limits: REQUESTS_10 }, saturation: () => 0.9 });
  const refused = await none.ask();
  assert.equal(refused.kind, 'block');
  assert.equal(refused.retryAfterSeconds, undefined);
  const full = shareHost(t, { pool: { limits: [limit('percent', '5h', 100)] }, saturation: () => 1 });
  assert.equal((await full.ask()).retryAfterSeconds, undefined);
});
