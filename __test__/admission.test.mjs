// Admission in one call says what the single gates say, and its instants are exact.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isOpen, openDatabase } from './support/driver.mjs';
import { DAY, Host, MINUTE, noLimits } from './support/host.mjs';
import { Random } from './support/random.mjs';

const PLATFORMS = ['groq', 'navy'];
const MODELS = ['m', 'a:b'];
const KEYS = [1, 2];
const ESTIMATE = 50;
const rounds = Number(process.env.QUOTA_TEST_ADMISSION_ROUNDS ?? 400);

const request = (over = {}) => ({ platform: 'groq', modelId: 'm', keyId: 1, limits: noLimits, ...over });

/** What the gates that admission is made of say one by one. */
function bySingleGates(core, { platform, modelId, keyId, limits, estimatedTokens, account }) {
  return (
    !core.isOnCooldown(platform, modelId, keyId) &&
    core.canUseKeyConcurrency(platform, keyId) &&
    core.canMakeRequest(platform, modelId, keyId, limits) &&
    core.canUseTokens(platform, modelId, keyId, estimatedTokens, limits) &&
    (account === false ||
      (core.canUseProviderMinute(platform, keyId) &&
        core.canUseProvider(platform, keyId) &&
        core.canUseProviderTokens(platform, keyId, modelId, estimatedTokens)))
  );
}

function randomRequest(random) {
  const axis = (low, high) => (random.chance(0.4) ? null : random.int(low, high));
  return {
    platform: random.pick(PLATFORMS),
    modelId: random.pick(MODELS),
    keyId: random.pick(KEYS),
    limits: { rpm: axis(0, 5), rpd: axis(0, 20), tpm: axis(0, 600), tpd: axis(0, 4000) },
    estimatedTokens: random.pick([0, ESTIMATE, 500]),
    account: random.chance(0.8),
  };
}

/** A few things that a router does, so that the next question meets another state. */
function stir(host, random) {
  const { core } = host;
  const route = [random.pick(PLATFORMS), random.pick(MODELS), random.pick(KEYS)];
  for (let count = random.int(0, 3); count > 0; count -= 1) core.recordRequest(...route);
  if (random.chance(0.5)) core.recordTokens(...route, random.int(0, 300));
  if (random.chance(0.1)) core.setCooldown(...route, random.int(0, 2 * MINUTE), random.pick(['credit', 'tier']));
  if (isOpen(host.db) && random.chance(0.1)) host.sql('DELETE FROM rate_limit_usage');
  host.advance(random.pick([0, 1, 500, 20_000, MINUTE]));
}

const variants = ['corrected', 'recorded'].flatMap((compat) =>
  ['utc-day', 'sliding-24h'].flatMap((dayWindow) => [true, false].map((index) => ({ compat, dayWindow, index }))),
);

function randomHost(t, core) {
  const host = new Host(t, { core });
  host.env.PROVIDER_DAILY_REQUEST_CAP_GROQ = '25';
  host.env.PROVIDER_MINUTE_REQUEST_CAP_GROQ = '9';
  host.env.PROVIDER_DAILY_TOKEN_CAP_NAVY = '3000';
  host.env.MAX_CONCURRENT_REQUESTS_PER_KEY_NAVY = '2';
  return host;
}

for (const [place, variant] of variants.entries()) {
  test(`admit, explain and the single gates agree, ${JSON.stringify(variant)}`, (t) => {
    const random = new Random(100 + place);
    const host = randomHost(t, variant);
    const { core } = host;
    const held = [];
    for (let round = 0; round < rounds; round += 1) {
      stir(host, random);
      // For a while there is no database.
      if (round === Math.floor(rounds / 2)) host.close();
      if (round === Math.floor((rounds * 3) / 4)) host.open();
      const list = Array.from({ length: random.int(1, 4) }, () => randomRequest(random));
      const expected = list.findIndex((candidate) => bySingleGates(core, candidate));
      for (const candidate of list) {
        const { admitted, gates, refusals } = core.explain(candidate);
        assert.equal(admitted, bySingleGates(core, candidate), JSON.stringify(candidate));
        assert.equal(refusals.length, gates.filter((gate) => !gate.passes).length);
        for (const gate of gates) assert.ok(gate.remaining >= 0);
      }
      const leases = core.inspect().leases;
      const dry = core.admit(list, { dryRun: true });
      assert.equal(core.inspect().leases, leases);
      const taken = core.admit(list);
      assert.equal(taken.admitted, expected >= 0);
      assert.equal(dry.admitted, taken.admitted);
      if (taken.admitted) {
        assert.equal(taken.index, expected);
        assert.equal(dry.index, expected);
        assert.equal(dry.leaseId, null);
        held.push(taken.leaseId);
      } else {
        assert.deepEqual(
          [...new Set(taken.refusals.map(({ index }) => index))],
          list.map((_, index) => index),
        );
      }
      while (held.length > 3 || (held.length > 0 && random.chance(0.3))) {
        const lease = held.shift();
        if (random.chance(0.5)) core.cancel(lease);
        else core.settle(lease, random.chance(0.5) ? {} : { tokens: random.int(0, 400) });
      }
    }
  });

  test(`at retryAtMs an axis passes, one millisecond before it does not, ${JSON.stringify(variant)}`, (t) => {
    const random = new Random(200 + place);
    const host = randomHost(t, variant);
    const { core } = host;
    let walked = 0;
    for (let round = 0; round < rounds / 4; round += 1) {
      stir(host, random);
      const candidate = randomRequest(random);
      const { refusals } = core.explain(candidate);
      const start = host.now;
      const passesAt = (axis, instant) => {
        host.now = instant;
        const gate = core.explain(candidate).gates.find((found) => found.axis === axis);
        host.now = start;
        return gate === undefined || gate.passes;
      };
      // The bench comes first: one that has ended is deleted by whoever asks.
      for (const { axis, retryAtMs, never } of refusals) {
        if (retryAtMs === null) {
          assert.ok(never === true || axis === 'concurrency', axis);
          continue;
        }
        assert.ok(retryAtMs > start);
        assert.equal(passesAt(axis, retryAtMs - 1), false, `${axis} one millisecond early`);
        assert.equal(passesAt(axis, retryAtMs), true, `${axis} in time`);
        walked += 1;
      }
    }
    assert.ok(walked > 0);
  });
}

test('what depends on leases has no instant', (t) => {
  const host = new Host(t);
  const limits = { ...noLimits, rpm: 1 };
  const { leaseId } = host.core.admit(request({ limits }));
  const refused = host.core.admit(request({ limits }));
  assert.equal(refused.admitted, false);
  assert.equal(refused.retryAtMs, null);
  assert.deepEqual(
    refused.refusals.map(({ axis, inFlight, retryAtMs, never }) => ({ axis, inFlight, retryAtMs, never })),
    [{ axis: 'rpm', inFlight: 1, retryAtMs: null, never: undefined }],
  );
  assert.equal(host.core.cancel(leaseId), true);
  assert.equal(host.core.cancel(leaseId), false);
  assert.equal(host.core.admit(request({ limits })).admitted, true);
});

test('a request above its limit says never', (t) => {
  const host = new Host(t);
  const limits = { ...noLimits, tpm: 10 };
  const refused = host.core.admit(request({ limits, estimatedTokens: 11 }));
  assert.deepEqual([refused.retryAtMs, refused.refusals[0].never], [null, true]);
});

test('the instant of a clock that stepped back over midnight', (t) => {
  const host = new Host(t);
  const limits = { ...noLimits, rpd: 1 };
  host.core.recordRequest('groq', 'm', 1);
  host.advance(DAY);
  host.core.recordRequest('groq', 'm', 1);
  host.advance(-DAY);
  const { retryAtMs } = host.core.explain(request({ limits }));
  host.now = retryAtMs - 1;
  assert.equal(host.core.explain(request({ limits })).admitted, false);
  host.now = retryAtMs;
  assert.equal(host.core.explain(request({ limits })).admitted, true);
});

test('a bench set while the database was away goes on after the row of the host', (t) => {
  const host = new Host(t);
  host.close();
  host.core.setCooldown('groq', 'm', 1, 10 * MINUTE);
  host.open();
  host.insert('rate_limit_cooldowns', {
    platform: 'groq',
    model_id: 'm',
    key_id: 1,
    expires_at_ms: host.now + MINUTE,
    source: 'credit',
  });
  const { retryAtMs } = host.core.explain(request());
  assert.equal(retryAtMs, host.now + 10 * MINUTE + 1);
});

describe('settle', () => {
  const used = (host) => {
    const { rpm, tpm } = host.core.getRateLimitStatus('groq', 'm', 1, noLimits);
    return [rpm.used, tpm.used];
  };

  test('one commit, once, and the estimate where tokens are unknown', (t) => {
    const host = new Host(t);
    const other = openDatabase(host.file);
    t.after(() => other.close());
    const commits = other.prepare('PRAGMA data_version');
    const settle = (...args) => {
      const before = commits.get().data_version;
      const outcome = host.core.settle(...args);
      return [outcome, commits.get().data_version - before];
    };
    // Attached, and what is due now and then is done.
    host.core.recordRequest('groq', 'm', 1);
    const { leaseId } = host.core.admit(request({ estimatedTokens: 40 }));
    assert.deepEqual(settle(leaseId), [{ settled: true, expired: false }, 1]);
    assert.deepEqual(settle(leaseId), [{ settled: false, expired: false }, 0]);
    assert.deepEqual(used(host), [2, 40]);
    const second = host.core.admit(request({ estimatedTokens: 40 })).leaseId;
    assert.deepEqual(settle(second, { tokens: 7, requests: 3 }), [{ settled: true, expired: false }, 1]);
    assert.deepEqual(used(host), [5, 47]);
  });

  test('a lease that was dropped for its age says so and is recorded', (t) => {
    const host = new Host(t);
    const { leaseId } = host.core.admit(request({ estimatedTokens: 40 }));
    host.advance(3 * MINUTE);
    assert.equal(host.core.inFlightForKey('groq', 1), 0);
    assert.deepEqual(host.core.settle(leaseId), { settled: true, expired: true });
    assert.deepEqual(used(host), [1, 40]);
    assert.deepEqual(host.core.settle(leaseId), { settled: false, expired: false });
  });

  test("the host's rollback takes it along", (t) => {
    const host = new Host(t);
    const { leaseId } = host.core.admit(request({ estimatedTokens: 40 }));
    host.sql('BEGIN');
    host.core.settle(leaseId);
    assert.deepEqual(used(host), [1, 40]);
    host.sql('ROLLBACK');
    assert.deepEqual(used(host), [0, 0]);
    assert.equal(host.core.inFlightForKey('groq', 1), 0);
  });
});

test('rank: emptiest first, equals keep their order', (t) => {
  const host = new Host(t);
  const limits = { ...noLimits, rpm: 10 };
  const list = Array.from({ length: 500 }, (_, index) => request({ modelId: `m${index % 5}`, limits }));
  for (let model = 0; model < 5; model += 1) {
    for (let count = 0; count < (7 * model) % 5; count += 1) host.core.recordRequest('groq', `m${model}`, 1);
  }
  const { order, pressure } = host.core.rank(list);
  assert.deepEqual(
    [...order].sort((a, b) => a - b),
    [...list.keys()],
  );
  for (let place = 1; place < 500; place += 1) {
    const [before, after] = [order[place - 1], order[place]];
    assert.ok(pressure[before] < pressure[after] || (pressure[before] === pressure[after] && before < after));
  }
  assert.equal(host.core.inspect().leases, 0);
});

describe('boundary', () => {
  test('wrong types', (t) => {
    const { core } = new Host(t);
    const code = { code: 'ERR_QUOTA_INVALID_ARGUMENT' };
    for (const wrong of [null, 1, 'x', undefined, { ...request(), platform: 1 }, { ...request(), keyId: '1' }]) {
      assert.throws(() => core.admit(wrong), code);
      assert.throws(() => core.rank([wrong]), code);
      assert.throws(() => core.explain(wrong), code);
    }
    assert.throws(() => core.admit({ ...request(), limits: null }), code);
    assert.throws(() => core.explain([request()]), code);
    assert.throws(() => core.settle('1'), code);
    assert.throws(() => core.settle(1, { requests: 1.5 }), code);
    assert.deepEqual(core.settle(Number.NaN), { settled: false, expired: false });
    assert.equal(core.cancel(-1), false);
    assert.throws(() => core.admit(Array.from({ length: 65_536 }, () => request())), code);
    assert.deepEqual(core.admit([]), { admitted: false, refusals: [], retryAtMs: null });
  });

  test('getters that call admit again', (t) => {
    const { core } = new Host(t);
    const limits = { ...noLimits, rpm: 3 };
    const nested = request({ modelId: 'other', limits: { ...noLimits, rpm: 0 } });
    const calling = new Proxy(request({ limits }), {
      get(target, name) {
        core.admit([nested, nested]);
        core.rank([nested]);
        return target[name];
      },
    });
    const answer = core.admit([nested, calling]);
    assert.deepEqual([answer.admitted, answer.index], [true, 1]);
    core.settle(answer.leaseId);
    assert.equal(core.getRateLimitStatus('groq', 'm', 1, limits).rpm.used, 1);
  });

  test('handles that are taken back while a list is read', (t) => {
    const { core } = new Host(t);
    const many = (from) => Array.from({ length: 60_000 }, (_, index) => request({ modelId: `n${from + index}` }));
    core.admit(many(0), { dryRun: true });
    const sweeping = new Proxy(request({ modelId: 'second' }), {
      get(target, name) {
        if (name === 'platform') core.rank(many(60_000));
        return target[name];
      },
    });
    assert.equal(core.admit([request({ modelId: 'first' }), sweeping], { dryRun: true }).index, 0);
    // And afterwards there is room again.
    core.rank(many(120_000));
    assert.ok(core.inspect().routes < 150_000);
  });
});
