// The probe pass: ripeness, pacing, budget, overlapping passes, and hosts that change benches meanwhile.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HOUR, Host, MINUTE } from './support/host.mjs';

const never = () => {
  throw new Error('no probe is due');
};

/** A host with `count` keys benched for an hour, one millisecond apart, half of it served, and every key sighted once. */
async function benchedHost(t, count, core = {}) {
  const host = new Host(t, { core });
  for (let keyId = 1; keyId <= count; keyId += 1) host.core.setCooldown('p', 'm', keyId, HOUR + keyId);
  host.advance(31 * MINUTE);
  const first = await host.core.runCooldownProbePass({ jitter: () => 0, probe: never });
  assert.deepEqual(first, { probedKeyIds: [], clearedCooldowns: 0 });
  return host;
}

const pass = (host, probe, options = {}) => host.core.runCooldownProbePass({ jitter: () => 0, probe, ...options });

describe('a pass', () => {
  test('schedules a key when it first sees it, spread over 45 s', async (t) => {
    const host = new Host(t);
    host.core.setCooldown('p', 'm', 1, HOUR);
    host.advance(31 * MINUTE);
    await pass(host, never, { jitter: () => 0.5 });
    host.advance(22_499);
    assert.deepEqual(await pass(host, never), { probedKeyIds: [], clearedCooldowns: 0 });
    host.advance(1);
    assert.deepEqual(await pass(host, async () => 'valid'), { probedKeyIds: [1], clearedCooldowns: 1 });
    assert.equal(host.core.isOnCooldown('p', 'm', 1), false);
  });

  test('takes at most three keys, soonest expiry first, or as many as asked for', async (t) => {
    const host = await benchedHost(t, 6);
    assert.deepEqual((await pass(host, async () => 'valid')).probedKeyIds, [1, 2, 3]);
    assert.deepEqual((await pass(host, async () => 'valid', { maxProbes: 1 })).probedKeyIds, [4]);
    host.env.COOLDOWN_PROBE_MAX_PER_PASS = '2';
    assert.deepEqual((await pass(host, async () => 'valid')).probedKeyIds, [5, 6]);
  });

  test('leaves benches alone that are nearly over, barely served, or not heuristic', async (t) => {
    const host = new Host(t);
    host.core.setCooldown('p', 'over', 1, 31 * MINUTE + 59_999);
    host.core.setCooldown('p', 'fresh', 2, 2 * HOUR);
    host.core.setCooldown('p', 'told', 3, HOUR, 'authoritative');
    host.core.setCooldown('p', 'ripe', 4, HOUR);
    host.advance(31 * MINUTE);
    await pass(host, never);
    assert.deepEqual((await pass(host, async () => 'valid')).probedKeyIds, [4]);
  });

  test('backs off 2, 4, 8, then 15 minutes, and leaves the bench as it was', async (t) => {
    const host = new Host(t);
    host.core.setCooldown('p', 'm', 1, 24 * HOUR);
    host.advance(12 * HOUR);
    const before = host.all('SELECT * FROM rate_limit_cooldowns');
    await pass(host, never);
    for (const minutes of [2, 4, 8, 15, 15]) {
      assert.deepEqual((await pass(host, async () => 'error')).probedKeyIds, [1]);
      host.advance(minutes * MINUTE - 1);
      assert.deepEqual((await pass(host, never)).probedKeyIds, []);
      host.advance(1);
    }
    assert.deepEqual(host.all('SELECT * FROM rate_limit_cooldowns'), before);
  });

  test('forgets the pacing of a key whose benches went', async (t) => {
    const host = await benchedHost(t, 1);
    await pass(host, async () => 'invalid');
    host.core.clearCooldownsForKey(1);
    await pass(host, never);
    host.core.setCooldown('p', 'm', 1, HOUR);
    host.advance(31 * MINUTE);
    await pass(host, never);
    assert.deepEqual((await pass(host, async () => 'invalid')).probedKeyIds, [1]);
    host.advance(2 * MINUTE);
    assert.deepEqual((await pass(host, async () => 'invalid')).probedKeyIds, [1], 'the back-off starts over');
  });

  test('resetCooldownProbeState forgets all pacing', async (t) => {
    const host = await benchedHost(t, 1);
    await pass(host, async () => 'error');
    host.core.resetCooldownProbeState();
    await pass(host, never);
    assert.deepEqual((await pass(host, async () => 'valid')).probedKeyIds, [1]);
  });

  test('uses the probe of the instance when the pass names none', async (t) => {
    const asked = [];
    const probe = async (keyId) => {
      asked.push(keyId);
      return 'valid';
    };
    const host = new Host(t, { core: { probe } });
    host.core.setCooldown('p', 'm', 7, HOUR);
    host.advance(31 * MINUTE);
    await host.core.runCooldownProbePass({ jitter: () => 0 });
    await host.core.runCooldownProbePass({ jitter: () => 0 });
    assert.deepEqual(asked, [7]);
  });

  test('a probe that throws, rejects or answers nonsense is an error', async (t) => {
    const host = await benchedHost(t, 4);
    const answers = {
      1: () => never(),
      2: () => Promise.reject(new Error('no')),
      3: async () => 'perhaps',
      4: async () => 'valid',
    };
    const result = await pass(host, (keyId) => answers[keyId](), { maxProbes: 10 });
    assert.deepEqual(result, { probedKeyIds: [1, 2, 3, 4], clearedCooldowns: 1 });
  });

  test('tells of a recovery', async (t) => {
    const host = await benchedHost(t, 2);
    const seen = [];
    host.core.on('cooldown_recovered', (event) => seen.push(event));
    await pass(host, async (keyId) => (keyId === 1 ? 'valid' : 'invalid'));
    assert.equal(seen.length, 1);
    assert.equal(seen[0].keyId, 1);
  });

  test('without a database there is nothing to probe', async (t) => {
    const host = await benchedHost(t, 1);
    host.close();
    assert.deepEqual(await pass(host, never), { probedKeyIds: [], clearedCooldowns: 0 });
  });
});

describe('a host that changes benches while a probe is pending', () => {
  const changes = {
    'cleared by hand': (host) => host.core.clearCooldownsForKey(1),
    'deleted in SQL': (host) => host.sql('DELETE FROM rate_limit_cooldowns'),
    'the database closed': (host) => host.close(),
    'all state reset': (host) => host.core.reset(),
    'the pacing reset': (host) => host.core.resetCooldownProbeState(),
  };
  for (const [name, change] of Object.entries(changes)) {
    test(name, async (t) => {
      const host = await benchedHost(t, 1);
      const result = await pass(host, async () => {
        change(host);
        return 'valid';
      });
      assert.deepEqual(result.probedKeyIds, [1]);
      assert.ok(result.clearedCooldowns <= 1);
    });
  }

  test('a bench set anew by hand, not ripe yet, stays', async (t) => {
    const host = await benchedHost(t, 1);
    await pass(host, async () => {
      host.core.setCooldown('p', 'new', 1, HOUR);
      return 'valid';
    });
    assert.equal(host.core.isOnCooldown('p', 'm', 1), false);
    assert.equal(host.core.isOnCooldown('p', 'new', 1), true);
  });
});

test('500 benched keys are probed in order, each once', async (t) => {
  const host = await benchedHost(t, 500);
  const probed = [];
  for (let round = 0; round < 50; round += 1) {
    const { probedKeyIds } = await pass(host, async () => 'valid', { maxProbes: 10 });
    probed.push(...probedKeyIds);
  }
  assert.deepEqual(
    probed,
    Array.from({ length: 500 }, (_, index) => index + 1),
  );
  assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_cooldowns'), 0);
});

describe('the scheduled job', () => {
  function scheduler() {
    const jobs = [];
    return {
      jobs,
      every(ms, run, options) {
        const job = { ms, run, options, cancelled: false };
        jobs.push(job);
        return () => {
          job.cancelled = true;
        };
      },
    };
  }

  test('is registered once and cancelled', (t) => {
    const { core } = new Host(t, { core: { probe: async () => 'valid' } });
    const host = scheduler();
    core.startCooldownProbe(host);
    core.startCooldownProbe(host);
    assert.equal(host.jobs.length, 1);
    assert.equal(host.jobs[0].ms, 60_000);
    assert.deepEqual(host.jobs[0].options, { name: 'cooldown-probe' });
    core.stopCooldownProbe();
    core.stopCooldownProbe();
    assert.equal(host.jobs[0].cancelled, true);
    core.startCooldownProbe(host);
    assert.equal(host.jobs.length, 2);
  });

  test('is not registered where the environment says so', (t) => {
    const host = new Host(t);
    host.env.COOLDOWN_PROBE_DISABLED = '1';
    const jobs = scheduler();
    host.core.startCooldownProbe(jobs);
    assert.equal(jobs.jobs.length, 0);
  });

  test('does not double a pass that is still running', async (t) => {
    let pending;
    let asked = 0;
    const host = await benchedHost(t, 1, {
      probe: () => {
        asked += 1;
        return new Promise((resolve) => {
          pending = resolve;
        });
      },
    });
    const jobs = scheduler();
    host.core.startCooldownProbe(jobs);
    const first = jobs.jobs[0].run();
    const second = jobs.jobs[0].run();
    assert.equal(asked, 1);
    pending('valid');
    await Promise.all([first, second]);
    assert.equal(host.core.isOnCooldown('p', 'm', 1), false);
  });

  test('a job never rejects', async (t) => {
    const host = await benchedHost(t, 1, { probe: () => Promise.reject(new Error('no')) });
    const jobs = scheduler();
    host.core.startCooldownProbe(jobs);
    await jobs.jobs[0].run();
    host.close();
    await jobs.jobs[0].run();
  });

  test('close stops it', (t) => {
    const { core } = new Host(t, { core: { probe: async () => 'valid' } });
    const host = scheduler();
    core.startCooldownProbe(host);
    core.close();
    assert.equal(host.jobs[0].cancelled, true);
  });
});
