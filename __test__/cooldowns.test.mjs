// Cooldowns, the ladder and the decision, in the default mode, beyond what the recorded runs show.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import quotaCore from '../index.js';
import { DAY, HOUR, Host, MINUTE, NOON } from './support/host.mjs';

const route = ['groq', 'm', 1];
const unknown = { rpd: null, tpd: null };

describe('benches', () => {
  test('survive the process: another instance on the file sees them', (t) => {
    const host = new Host(t);
    host.core.setCooldown(...route, MINUTE, 'credit');
    host.core.reset();
    host.reopen();
    assert.equal(host.core.isOnCooldown(...route), true);
    host.advance(MINUTE);
    assert.equal(host.core.isOnCooldown(...route), true);
    host.advance(1);
    assert.equal(host.core.isOnCooldown(...route), false);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_cooldowns'), 0);
  });

  test('a later bench replaces an earlier one, shorter or longer', (t) => {
    const host = new Host(t);
    host.core.setCooldown(...route, HOUR, 'authoritative');
    host.core.setCooldown(...route, 1000, 'heuristic');
    assert.deepEqual(
      host.all('SELECT source, expires_at_ms AS expires, set_at_ms AS setAt FROM rate_limit_cooldowns'),
      [{ source: 'heuristic', expires: NOON + 1000, setAt: NOON }],
    );
  });

  test('lists are soonest first and take only integers', (t) => {
    const { core } = new Host(t);
    core.setCooldown('a', 'x', 1, 3000);
    core.setCooldown('a', 'y', 1, 1000);
    core.setCooldown('b', 'x', 2, 2000, 'tier');
    const active = core.getActiveCooldownsForKeys([2, 1, 1, 1.5, NaN, 7]);
    assert.ok(active instanceof Map);
    assert.deepEqual([...active.keys()].sort(), [1, 2]);
    assert.deepEqual(
      active.get(1).map((entry) => entry.modelId),
      ['y', 'x'],
    );
    assert.deepEqual(active.get(2), [
      { platform: 'b', modelId: 'x', keyId: 2, expiresAtMs: NOON + 2000, remainingMs: 2000 },
    ]);
    assert.deepEqual(
      core.getProbeableCooldowns().map((entry) => entry.modelId),
      ['y', 'x'],
    );
    assert.equal(core.getSoonestCooldownExpiry(), NOON + 1000);
    assert.equal(core.getSoonestCooldownExpiry(NOON + 3000), null);
    assert.equal(core.cleanupExpiredCooldowns(NOON + 2000), 2);
    assert.equal(core.clearCooldownsForKey(1), 1);
    assert.equal(core.clearCooldownsForKey(1), 0);
    assert.equal(core.clearCooldownsForKey(1.5), 0);
  });
});

describe('the ladder', () => {
  test('climbs 2 min, 10 min, 1 h, 24 h by hits of the last day', (t) => {
    const host = new Host(t);
    const climb = () => host.core.getNextCooldownDuration(...route);
    assert.deepEqual([climb(), climb(), climb(), climb(), climb()], [2 * MINUTE, 10 * MINUTE, HOUR, DAY, DAY]);
    host.advance(DAY);
    assert.equal(climb(), 2 * MINUTE);
  });

  test('a served request brings the route, and only it, back to the bottom', (t) => {
    const { core } = new Host(t);
    core.getNextCooldownDuration(...route);
    core.getNextCooldownDuration('groq', 'other', 1);
    core.recordRequest(...route);
    assert.equal(core.getNextCooldownDuration(...route), 2 * MINUTE);
    assert.equal(core.getNextCooldownDuration('groq', 'other', 1), 10 * MINUTE);
  });

  test('recorded tokens and an early clear keep the history', (t) => {
    const { core } = new Host(t);
    core.getNextCooldownDuration(...route);
    core.recordTokens(...route, 5);
    core.clearCooldownEarly(...route);
    assert.equal(core.getNextCooldownDuration(...route), 10 * MINUTE);
  });
});

describe('the decision', () => {
  test('daily requests or tokens spent: a step of the ladder', (t) => {
    const { core } = new Host(t);
    core.recordRequest(...route);
    core.recordTokens(...route, 50);
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, { rpd: 2, tpd: 51 }), {
      durationMs: 90_000,
      source: 'heuristic',
    });
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, { rpd: 1, tpd: null }), {
      durationMs: 2 * MINUTE,
      source: 'heuristic',
    });
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, { rpd: null, tpd: 50 }), {
      durationMs: 10 * MINUTE,
      source: 'heuristic',
    });
  });

  test('leases do not spend a day', (t) => {
    const { core } = new Host(t);
    core.acquireLease(...route, 100);
    assert.equal(core.getCooldownDurationForLimit(...route, { rpd: 1, tpd: 10 }), 90_000);
  });

  test('no limits known: the second signal in an hour climbs, at most to 10 minutes', (t) => {
    const { core } = new Host(t);
    const durations = [1, 2, 3, 4].map(() => core.getCooldownDurationForLimit(...route, unknown));
    assert.deepEqual(durations, [90_000, 2 * MINUTE, 10 * MINUTE, 10 * MINUTE]);
  });

  test('without a quota signal nothing is counted', (t) => {
    const host = new Host(t);
    for (let count = 0; count < 3; count += 1) {
      assert.equal(host.core.getCooldownDurationForLimit(...route, unknown, undefined, { quotaSignal: false }), 90_000);
    }
    assert.equal(host.core.recentHitCount(...route, host.now), 0);
  });

  test('Retry-After wins where it is longer, up to a day', (t) => {
    const { core } = new Host(t);
    const known = { rpd: 100, tpd: null };
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, known, 1000), {
      durationMs: 90_000,
      source: 'heuristic',
    });
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, known, 90_000), {
      durationMs: 90_000,
      source: 'heuristic',
    });
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, known, 90_001), {
      durationMs: 90_001,
      source: 'authoritative',
    });
    assert.deepEqual(core.getCooldownDecisionForLimit(...route, known, 5 * DAY), {
      durationMs: DAY,
      source: 'authoritative',
    });
  });

  test('a key of a local endpoint is benched for a moment, whatever else', (t) => {
    const host = new Host(t);
    host.addKey(5, 'custom', { base_url: 'http://192.168.1.5:8080/v1' });
    const decide = () => host.core.getCooldownDecisionForLimit('custom', 'm', 5, { rpd: 0, tpd: 0 }, DAY);
    assert.deepEqual(decide(), { durationMs: quotaCore.LOCAL_ENDPOINT_COOLDOWN_MS, source: 'heuristic' });
    assert.equal(quotaCore.LOCAL_ENDPOINT_COOLDOWN_MS, 5000);
    host.sql("UPDATE api_keys SET base_url = 'https://llm.example.com/v1'");
    assert.equal(decide().durationMs, 5000);
    host.core.resetKeyLocalityCache();
    assert.equal(decide().durationMs, DAY);
  });
});

describe('an error of a provider', () => {
  const target = { platform: 'groq', modelId: 'm', keyId: 1, rpdLimit: 100, tpdLimit: null };
  const untilMidnight = 12 * HOUR;
  const cases = [
    [{ status: 402 }, { durationMs: DAY, source: 'credit' }],
    [{ message: 'You have insufficient_quota' }, { durationMs: DAY, source: 'credit' }],
    [{ message: 'Insufficient Balance' }, { durationMs: DAY, source: 'credit' }],
    [{ status: 403 }, { durationMs: DAY, source: 'tier' }],
    [{ message: 'Forbidden: your plan has no such model' }, { durationMs: DAY, source: 'tier' }],
    [
      { status: 429, message: 'Daily limit reached: requests per day exhausted, quota exceeded for today' },
      { durationMs: untilMidnight, source: 'authoritative' },
    ],
    [{ status: 429 }, { durationMs: 90_000, source: 'heuristic' }],
    [
      { status: 429, retryAfterMs: 300_000 },
      { durationMs: 300_000, source: 'authoritative' },
    ],
    [
      { status: 500, message: 'oops' },
      { durationMs: 90_000, source: 'heuristic' },
    ],
    [{}, { durationMs: 90_000, source: 'heuristic' }],
  ];
  for (const [error, expected] of cases) {
    test(JSON.stringify(error), (t) => {
      const { core } = new Host(t);
      assert.deepEqual(core.cooldownDecisionForError(target, error), expected);
    });
  }

  test('only a real 429 counts as an unknown-limit hit', (t) => {
    const host = new Host(t);
    const nameless = { ...target, rpdLimit: null };
    const hits = () => host.core.recentHitCount('groq', 'm', 1, host.now);
    host.core.cooldownDecisionForError(nameless, { status: 500, message: 'rate limit' });
    assert.equal(hits(), 0);
    host.core.cooldownDecisionForError(nameless, { message: 'RESOURCE_EXHAUSTED' });
    assert.equal(hits(), 1);
    host.core.cooldownDecisionForError(nameless, { status: 429 });
    assert.equal(hits(), 2);
  });
});

test('learning lowers a limit, never raises it, and tells of it', (t) => {
  const host = new Host(t);
  host.addModel('groq', 'm', { id: 1, rpm_limit: null, rpd_limit: 100 });
  const seen = [];
  host.core.on('limit_learned', (event) => seen.push(event));
  const learn = (message) => host.core.learnLimitFromError(1, { message });
  assert.deepEqual(learn('requests per minute: Limit 30, used 30'), { kind: 'rpm', limit: 30 });
  assert.equal(learn('requests per minute: Limit 40, used 40'), null);
  assert.equal(learn('requests per day: Limit 100'), null);
  assert.deepEqual(learn('requests per day: Limit 50'), { kind: 'rpd', limit: 50 });
  assert.equal(learn('something else'), null);
  assert.equal(host.core.learnLimitFromError(99, { message: 'requests per day: Limit 50' }), null);
  assert.deepEqual(host.all('SELECT rpm_limit AS rpm, rpd_limit AS rpd FROM models'), [{ rpm: 30, rpd: 50 }]);
  assert.equal(seen.length, 2);
});
