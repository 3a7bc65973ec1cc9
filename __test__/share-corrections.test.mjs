// Where the originals do harm: each point in both modes (docs/differences.md, "Quota sharing").
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HOUR, limit, shareHost } from './support/share-host.mjs';
import { insert } from './support/share-replayer.mjs';

const both = (title, run) => {
  for (const compat of ['corrected', 'recorded']) {
    test(`${title} (${compat})`, (t) => run(t, compat, compat === 'recorded'));
  }
};

both('a provider named like an object property has no plan', async (t, compat, recorded) => {
  const { core } = shareHost(t, { compat, pool: { provider: 'constructor' } });
  for (const name of ['constructor', '__proto__', 'toString']) {
    const request = { apiKeyId: 'k1', connectionId: 'c1', provider: name };
    if (recorded) {
      assert.throws(() => core.getKnownPlan(name), TypeError);
      assert.throws(() => core.resolvePlan('c1', name), TypeError);
      await assert.rejects(core.enforceQuotaShare(request), TypeError);
    } else {
      assert.equal(core.getKnownPlan(name), null);
      const empty = { connectionId: null, provider: name, dimensions: [], source: 'manual' };
      assert.deepEqual(core.resolvePlan('c1', name), empty);
      assert.deepEqual(await core.enforceQuotaShare(request), { kind: 'allow' });
      await core.recordConsumption({ ...request, cost: { requests: 1 } });
    }
  }
});

both('a plan with a hole is no plan', async (t, compat, recorded) => {
  for (const text of ['[null]', '{"length":2}']) {
    const { core, db, ask, spend } = shareHost(t, { compat });
    insert(db, { provider_plans: [{ connection_id: 'c1', provider: 'mystery', dimensions_json: text }] });
    const request = { provider: 'mystery' };
    if (recorded) {
      await assert.rejects(ask('k1', request), TypeError);
      await assert.rejects(spend({ requests: 1 }, 'k1', request), TypeError);
    } else {
      assert.deepEqual(await ask('k1', request), { kind: 'allow' });
      await spend({ requests: 1 }, 'k1', request);
      const empty = { connectionId: null, provider: 'mystery', dimensions: [], source: 'manual' };
      assert.deepEqual(core.resolvePlan('c1', 'mystery'), empty);
    }
  }
});

both('deleting a pool passes over a key whose list is no JSON', (t, compat, recorded) => {
  const { core, db } = shareHost(t, { compat });
  const key = (id, allowed_quotas) => ({ id, name: id, key: id, created_at: 'x', allowed_quotas });
  insert(db, { api_keys: [key('good', '["p","q"]'), key('bad', 'no json'), key('object', '{"a":"p"}')] });
  const lists = () =>
    db
      .prepare('SELECT allowed_quotas AS list FROM api_keys ORDER BY id')
      .all()
      .map(({ list }) => list);
  if (recorded) {
    assert.throws(() => core.deletePool('p'), { code: 'ERR_QUOTA_DATABASE' });
    assert.notEqual(core.getPool('p'), null);
    assert.deepEqual(lists(), ['no json', '["p","q"]', '{"a":"p"}']);
  } else {
    assert.equal(core.deletePool('p'), true);
    assert.equal(core.getPool('p'), null);
    assert.deepEqual(lists(), ['no json', '["q"]', '{"a":"p"}']);
  }
});

both('model caps go with their pool', (t, compat, recorded) => {
  const { core } = shareHost(t, { compat });
  core.setModelCap({ poolId: 'p', apiKeyId: 'k1', model: 'm', capValue: 1, capUnit: 'usd' });
  assert.equal(core.deletePool('p'), true);
  assert.equal(core.listModelCaps('p', 'k1').length, recorded ? 1 : 0);
});

both('the host is told to drop a pool only when it is gone', async (t, compat, recorded) => {
  const { core, db } = shareHost(t, { compat });
  const told = [];
  core.onPoolRemoved((id) => told.push(id));
  db.exec("CREATE TRIGGER keep BEFORE DELETE ON quota_pools BEGIN SELECT RAISE(ABORT, 'kept'); END");
  assert.throws(() => core.deletePool('p'), { code: 'ERR_QUOTA_DATABASE' });
  await new Promise(setImmediate);
  assert.deepEqual(told, recorded ? ['p'] : []);
  db.exec('DROP TRIGGER keep');
  told.length = 0;
  core.deletePool('p');
  await new Promise(setImmediate);
  assert.deepEqual(told, ['p']);
});

both('a refusal says when to come again', async (t, compat, recorded) => {
  const { ask, spend } = shareHost(t, { compat, pool: { limits: [limit('requests', 'hourly', 5)] } });
  await spend({ requests: 5 });
  const refused = await ask();
  assert.equal(refused.kind, 'block');
  assert.equal('retryAfterSeconds' in refused, true);
  assert.equal(typeof refused.retryAfterSeconds, recorded ? 'undefined' : 'number');
});

both('a decision on values alone says when at the latest', (t, compat, recorded) => {
  const { core, clock } = shareHost(t, { compat });
  const key = { poolId: 'p', unit: 'tokens', window: 'hourly' };
  clock.now = 1000 * HOUR + 600_000;
  const decide = (consumed, unit = 'tokens') =>
    core.decideFairShare({
      dimensions: [{ key: { ...key, unit }, limit: 100, consumedTotal: consumed, globalUsedPercent: 0 }],
      allocation: { weight: 50, policy: 'burst' },
      consumedByThisKey: {},
      saturationThreshold: 0.5,
    });
  const refused = { kind: 'block', reason: 'global-saturated' };
  // Twice the limit: half of the next hour has to pass, and a millisecond.
  assert.deepEqual(decide(200), recorded ? refused : { ...refused, retryAfterMs: 1.5 * HOUR - 600_000 + 1 });
  assert.deepEqual(decide(200, 'percent'), refused, 'the provider alone knows');
});

both('a threshold that is no number from 0 to 1 counts as not set', async (t, compat, recorded) => {
  for (const [text, strictAt] of [
    ['abc', recorded ? Number.POSITIVE_INFINITY : 0.5],
    ['', recorded ? 0 : 0.5],
    ['-1', recorded ? 0 : 0.5],
    ['0.8', 0.8],
  ]) {
    for (const used of [0, 0.4, 0.5, 0.79, 0.8, 1]) {
      const { ask, spend } = shareHost(t, {
        compat,
        env: { QUOTA_SATURATION_THRESHOLD: text },
        saturation: () => used,
        pool: { weights: { k1: 10, k2: 90 }, limits: [limit('requests', 'hourly', 100)] },
      });
      await spend({ requests: 10 });
      assert.equal((await ask()).kind, used >= strictAt ? 'block' : 'allow', `"${text}" at ${used}`);
    }
  }
});

test('snapshots show what enforcement goes by with usageView: enforced', async (t) => {
  const pool = { weights: { k1: 0, k2: 0 }, members: ['c1', 'c2'], limits: [limit('requests', 'hourly', 10)] };
  const asked = [limit('requests', 'hourly', 10)];
  for (const usageView of [undefined, 'recorded', 'enforced']) {
    const { store, core, clock, spend } = shareHost(t, { pool, ...(usageView && { usageView }) });
    clock.now += HOUR / 2;
    await spend({ requests: 4 });
    // A key that has left the pool.
    core.incrementBucket('gone', 'p:requests:hourly', Math.floor(clock.now / HOUR), 3);
    const { dimensions } = await store.poolUsageWithDimensions('p', asked);
    const enforced = usageView === 'enforced';
    assert.equal(dimensions[0].limit, enforced ? 20 : 10);
    assert.equal(dimensions[0].consumedTotal, enforced ? 7 : 4);
    assert.deepEqual(dimensions[0].perKey[0], {
      apiKeyId: 'k1',
      consumed: 4,
      fairShare: enforced ? 10 : 0,
      deficit: enforced ? -6 : 4,
      borrowing: !enforced,
    });
    // Without dimensions given, those of the plan of the pool's first connection.
    assert.deepEqual((await store.poolUsage('p')).dimensions, dimensions);
  }
});

test('values that JavaScript cannot count with or write', (t) => {
  const { core } = shareHost(t, {});
  const odd = [Symbol('odd'), Object.create(null)];
  for (const value of odd) {
    assert.deepEqual(core.buildConsumptionCost({ prompt_tokens: value, completion_tokens: 2 }, value), {
      tokens: 2,
      usd: 0,
      requests: 1,
    });
    assert.throws(() => core.dimensionKeyToString({ poolId: value, unit: 'usd', window: '5h' }), {
      code: 'ERR_QUOTA_INVALID_ARGUMENT',
    });
  }
  assert.deepEqual(core.buildConsumptionCost({ prompt_tokens: 3n }, 4n), { tokens: 3, usd: 4, requests: 1 });
});
