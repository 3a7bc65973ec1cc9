// Shared admission on one server: the same answers as the admission of one process, leases that any replica may settle,
// cooldowns for all, and what happens while the server is away.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';

import { Random } from './support/random.mjs';
import { startRedis } from './support/redis-server.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const NO_LIMITS = { rpm: null, rpd: null, tpm: null, tpd: null };
const ROUTE = { platform: 'groq', modelId: 'm', keyId: 1 };

function replica(t, url, options = {}) {
  const warnings = [];
  const { redis, ...rest } = options;
  const core = createQuotaCore({
    env: {},
    redis: { url, timeoutMs: 400, ...redis },
    logger: { warn: (...parts) => warnings.push(parts.join(' ')) },
    ...rest,
  });
  t.after(() => core.close());
  return { core, warnings };
}

const request = (limits = {}, extra = {}) => ({ ...ROUTE, limits: { ...NO_LIMITS, ...limits }, ...extra });

/** An answer without what differs by nature: the lease's name, and the clocks of two machines. */
function comparable(answer) {
  const instant = (at) => (at === null ? null : 'some instant');
  if (answer.admitted) return { admitted: true, index: answer.index };
  const refusals = answer.refusals.map((refusal) => ({ ...refusal, retryAtMs: instant(refusal.retryAtMs) }));
  return { ...answer, refusals, retryAtMs: instant(answer.retryAtMs) };
}

function assertSameInstants(shared, local) {
  if (shared.admitted) return;
  for (const [index, { retryAtMs }] of shared.refusals.entries()) {
    if (retryAtMs !== null) {
      const apart = Math.abs(retryAtMs - local.refusals[index].retryAtMs);
      assert.ok(apart < 2000, `${apart} ms apart`);
    }
  }
}

for (const dayWindow of ['utc-day', 'sliding-24h']) {
  test(`the same answers as the admission of one process (${dayWindow})`, async (t) => {
    const server = await startRedis(t);
    const env = {
      PROVIDER_MINUTE_REQUEST_CAP_CAPPED: '6',
      PROVIDER_DAILY_REQUEST_CAP_CAPPED: '12',
      PROVIDER_DAILY_TOKEN_CAP_CAPPED: '900',
      MAX_CONCURRENT_REQUESTS_PER_KEY: '5',
    };
    const random = new Random(7);
    const pick = (list) => random.pick(list);
    let admitted = 0;
    let refused = 0;
    for (let round = 0; round < 12; round += 1) {
      const { core: shared } = replica(t, server.url, { env, dayWindow, redis: { keyPrefix: `round${round}:` } });
      const local = createQuotaCore({ env, dayWindow, database: ':memory:' });
      const open = [];
      for (let step = 0; step < 60; step += 1) {
        const act = random.next();
        if (act < 0.6) {
          const requests = Array.from({ length: pick([1, 1, 2, 3]) }, () => ({
            platform: pick(['groq', 'capped']),
            modelId: pick(['a', 'b', 'a:b', 'ö']),
            keyId: pick([1, 2]),
            limits: {
              rpm: pick([null, 3, 5]),
              rpd: pick([null, 8, 0]),
              tpm: pick([null, 300, 40]),
              tpd: pick([null, 500]),
            },
            estimatedTokens: pick([0, 10, 50, 120]),
            account: pick([true, true, false]),
          }));
          const theirs = await shared.admitShared(requests);
          const ours = local.admit(requests);
          const at = `round ${round}, step ${step}: ${JSON.stringify(requests)}`;
          assert.deepEqual(comparable(theirs), comparable(ours), at);
          assertSameInstants(theirs, ours);
          if (theirs.admitted) open.push([theirs.leaseId, ours.leaseId]);
          if (theirs.admitted) admitted += 1;
          else refused += 1;
        } else if (act < 0.85 && open.length > 0) {
          const [theirs, ours] = open.splice(random.int(0, open.length - 1), 1)[0];
          const usage = { tokens: pick([undefined, 0, 5, 90]), requests: pick([1, 1, 1, 2, 0]) };
          assert.deepEqual(await shared.settleShared(theirs, usage), local.settle(ours, usage));
          assert.deepEqual(await shared.settleShared(theirs, usage), local.settle(ours, usage), 'twice is once');
        } else if (act < 0.95 && open.length > 0) {
          const [theirs, ours] = open.splice(random.int(0, open.length - 1), 1)[0];
          assert.equal(await shared.cancelShared(theirs), local.cancel(ours));
          assert.equal(await shared.cancelShared(theirs), local.cancel(ours));
        } else {
          const route = [pick(['groq', 'capped']), pick(['a', 'b']), pick([1, 2])];
          const [duration, source] = pick([
            [5000, 'heuristic'],
            [60_000, 'credit'],
          ]);
          for (const core of [shared, local]) core.setCooldown(...route, duration, source);
        }
      }
      local.close();
    }
    t.diagnostic(`${admitted} admitted, ${refused} refused`);
    assert.ok(admitted > 100 && refused > 100);
  });
}

test('wrong arguments are the caller’s', async (t) => {
  const server = await startRedis(t);
  const { core } = replica(t, server.url);
  for (const wrong of [null, {}, { ...ROUTE }, { ...ROUTE, limits: 3 }, { ...ROUTE, keyId: '1', limits: NO_LIMITS }]) {
    await assert.rejects(core.admitShared(wrong), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
  }
  for (const wrong of [undefined, 7, '', 'x', 'a:b:c:d', 'a:1:9:short']) {
    await assert.rejects(core.settleShared(wrong), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
    await assert.rejects(core.cancelShared(wrong), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
  }
  assert.deepEqual(await core.admitShared([]), { admitted: false, refusals: [], retryAtMs: null });
  const nowhere = createQuotaCore({ env: {} });
  await assert.rejects(nowhere.admitShared(request()), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
});

test('every replica may settle a lease; names may be anything', async (t) => {
  const server = await startRedis(t);
  const [{ core: one }, { core: other }] = [replica(t, server.url), replica(t, server.url)];
  for (const route of [
    { platform: 'groq', modelId: 'm', keyId: 1 },
    { platform: 'a:b', modelId: ':1:c', keyId: 0 },
    { platform: 'ö', modelId: 'ü\n\0☃', keyId: -3 },
    { platform: '', modelId: '', keyId: 1e21 },
  ]) {
    const wanted = { ...route, limits: { ...NO_LIMITS, rpm: 1, tpm: 100 }, estimatedTokens: 60 };
    const { leaseId } = await one.admitShared(wanted);
    assert.equal((await other.admitShared(wanted)).admitted, false);
    assert.deepEqual(await other.settleShared(leaseId), { settled: true, expired: false });
    assert.equal(other.getRateLimitStatus(route.platform, route.modelId, route.keyId, NO_LIMITS).tpm.used, 60);
    const { refusals } = await one.admitShared(wanted);
    assert.deepEqual(
      refusals.map(({ axis, used, inFlight }) => [axis, used, inFlight]),
      [
        ['rpm', 1, 0],
        ['tpm', 60, 0],
      ],
    );
  }
});

test('a lease that another replica ended is not recorded again by the one that gave it', async (t) => {
  const server = await startRedis(t);
  const [{ core: one }, { core: other }] = [replica(t, server.url), replica(t, server.url)];
  const wanted = request({ rpm: 100, tpm: 1000 }, { estimatedTokens: 60 });
  const settled = await one.admitShared(wanted);
  assert.equal((await other.settleShared(settled.leaseId, { tokens: 50 })).settled, true);
  assert.deepEqual(await one.settleShared(settled.leaseId, { tokens: 50 }), { settled: false, expired: false });
  const cancelled = await one.admitShared(wanted);
  assert.equal(await other.cancelShared(cancelled.leaseId), true);
  assert.equal(await other.cancelShared(cancelled.leaseId), false);
  assert.deepEqual(await one.settleShared(cancelled.leaseId), { settled: false, expired: false });
  const { refusals } = await one.admitShared(request({ rpm: 1, tpm: 1 }, { estimatedTokens: 60 }));
  assert.deepEqual(
    refusals.map(({ axis, used, inFlight }) => [axis, used, inFlight]),
    [
      ['rpm', 1, 0],
      ['tpm', 50, 0],
    ],
  );
});

test('leases of a replica that was lost end by their age, and are settled late', async (t) => {
  const server = await startRedis(t);
  const { core } = replica(t, server.url, { redis: { leaseMs: 300 } });
  const wanted = request({ rpm: 1 }, { estimatedTokens: 10 });
  const { leaseId } = await core.admitShared(wanted);
  const { refusals, retryAtMs } = await core.admitShared(wanted);
  assert.deepEqual([refusals[0].axis, refusals[0].inFlight, retryAtMs], ['rpm', 1, null]);
  await wait(350);
  const second = await core.admitShared(wanted);
  assert.equal(second.admitted, true);
  assert.equal(await core.cancelShared(second.leaseId), true);
  assert.deepEqual(await core.settleShared(leaseId, { tokens: 4 }), { settled: true, expired: true });
  assert.deepEqual(await core.settleShared(leaseId, { tokens: 4 }), { settled: false, expired: false });
  const { refusals: after } = await core.admitShared(wanted);
  assert.deepEqual([after[0].axis, after[0].used, after[0].inFlight], ['rpm', 1, 0]);
});

test('a bench on one replica is a bench on all, and so is its end', async (t) => {
  const server = await startRedis(t);
  const [{ core: one }, { core: other }] = [replica(t, server.url), replica(t, server.url)];
  const benched = async () => {
    const answer = await other.admitShared(request());
    if (answer.admitted) await other.cancelShared(answer.leaseId);
    return answer.admitted ? null : answer.refusals[0];
  };
  const soon = async (wanted) => {
    for (let attempt = 0; attempt < 100 && Boolean(await benched()) !== wanted; attempt += 1) await wait(5);
    return benched();
  };
  one.setCooldown('groq', 'm', 1, 60_000, 'authoritative');
  const refusal = await soon(true);
  assert.equal(refusal.axis, 'cooldown');
  assert.equal(refusal.source, 'authoritative');
  assert.ok(Math.abs(refusal.retryAtMs - Date.now() - 60_000) < 2000);
  one.clearCooldownEarly('groq', 'm', 1);
  assert.equal(await soon(false), null);

  one.setCooldown('groq', 'm', 1, 60_000, 'heuristic');
  one.setCooldown('groq', 'unnamed', 1, 60_000, 'heuristic');
  await soon(true);
  other.clearCooldownsForKey(1);
  assert.equal(await soon(false), null);
  const unnamed = await one.admitShared({ ...request(), modelId: 'unnamed' });
  assert.equal(unnamed.admitted, true, 'a route that the other replica never heard of is lifted too');

  one.setCooldown('groq', 'm', 1, 150, 'heuristic');
  await soon(true);
  await wait(160);
  assert.equal(await benched(), null);
});

test('a server that is away: local limits, a part for each replica', async (t) => {
  const server = await startRedis(t);
  const replicas = [replica(t, server.url), replica(t, server.url), replica(t, server.url)];
  const wanted = request({ rpm: 10 });
  for (const { core } of replicas) await core.cancelShared((await core.admitShared(wanted)).leaseId);
  // Each learns how many there are with its next sign of life.
  await wait(5100);
  for (const { core } of replicas) await core.cancelShared((await core.admitShared(wanted)).leaseId);
  await wait(100);
  await server.stop();

  let admitted = 0;
  const leases = [];
  for (const { core, warnings } of replicas) {
    const started = performance.now();
    for (let attempt = 0; attempt < 8; attempt += 1) {
      const answer = await core.admitShared(wanted);
      if (answer.admitted) leases.push([core, answer.leaseId]);
      else assert.deepEqual([answer.refusals[0].axis, answer.refusals[0].limit], ['rpm', 3]);
      admitted += Number(answer.admitted);
    }
    assert.ok(performance.now() - started < 1000);
    assert.equal(warnings.length, 1, warnings.join('\n'));
    assert.match(warnings[0], /^quota:redis/);
    assert.doesNotMatch(warnings[0], /redis:\/\/|127\.0\.0\.1/);
  }
  assert.equal(admitted, 9, 'a third of ten each, rounded down');
  for (const [core, leaseId] of leases) {
    assert.deepEqual(await core.settleShared(leaseId, { tokens: 5 }), { settled: true, expired: false });
    assert.deepEqual(await core.settleShared(leaseId, { tokens: 5 }), { settled: false, expired: false });
  }

  await server.start();
  const { core } = replicas[0];
  const used = async () => {
    const answer = await core.admitShared(request({ rpm: 0, tpm: -1 }, { estimatedTokens: 1 }));
    return answer.refusals.map((refusal) => [refusal.axis, refusal.used]);
  };
  for (const { core: each } of replicas) {
    for (;;) {
      const isBack = await each
        .getRedisQuotaStore()
        .ready()
        .then(
          () => true,
          () => wait(20),
        );
      if (isBack) break;
    }
    await each.admitShared(request({ rpm: 0 }));
  }
  for (let attempt = 0; attempt < 200 && (await used())[0][1] < 9; attempt += 1) await wait(20);
  assert.deepEqual(await used(), [
    ['rpm', 9],
    ['tpm', 45],
  ]);
});

test('a server that is away: open, closed', async (t) => {
  const server = await startRedis(t);
  const { core: open, warnings } = replica(t, server.url, { onStoreLoss: 'open' });
  const { core: closed } = replica(t, server.url, { onStoreLoss: 'closed' });
  const wanted = request({ rpm: 2 });
  server.pause();
  const started = performance.now();
  for (let attempt = 0; attempt < 5; attempt += 1) {
    assert.equal((await open.admitShared({ ...wanted, keyId: 2 })).admitted, true);
    assert.deepEqual(await closed.admitShared([wanted, wanted]), {
      admitted: false,
      refusals: [0, 1].map((index) => ({
        index,
        axis: 'store',
        limit: 0,
        used: 0,
        inFlight: 0,
        remaining: 0,
        retryAtMs: null,
      })),
      retryAtMs: null,
    });
  }
  assert.ok(performance.now() - started < 1500, 'only the first calls wait for the bound');
  assert.equal(warnings.length, 1);
  server.resume();
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const answer = await closed.admitShared(wanted);
    if (answer.admitted) break;
    await wait(20);
  }
  assert.equal((await closed.admitShared(wanted)).admitted, true);
  assert.equal((await closed.admitShared(wanted)).refusals[0].axis, 'rpm', 'no lease was left behind by lost calls');
  assert.throws(() => createQuotaCore({ onStoreLoss: 'whatever' }), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
});
