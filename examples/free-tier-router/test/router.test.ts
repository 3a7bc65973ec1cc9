import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { CooldownSource, Limits } from '../src/ratelimit.js';

const NOON = Date.UTC(2027, 0, 1, 12);
const limits: Limits = { rpm: 2, rpd: null, tpm: null, tpd: null };

/** The host's modules loaded anew, as after a restart. */
async function host() {
  vi.resetModules();
  const [db, keys, ratelimit, probe, quota] = await Promise.all([
    import('../src/db.js'),
    import('../src/keys.js'),
    import('../src/ratelimit.js'),
    import('../src/cooldown-probe.js'),
    import('../src/provider-quota.js'),
  ]);
  return { db, keys, ratelimit, probe, quota };
}

beforeEach(() => {
  vi.useFakeTimers({ now: NOON });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('before the database is open', () => {
  test('the functions answer from memory', async () => {
    const { ratelimit } = await host();
    ratelimit.recordRequest('groq', 'm', 1);
    ratelimit.recordRequest('groq', 'm', 1);
    expect(ratelimit.canMakeRequest('groq', 'm', 1, limits)).toBe(false);
    ratelimit.setCooldown('groq', 'm', 2, 1000);
    expect(ratelimit.isOnCooldown('groq', 'm', 2)).toBe(true);
  });
});

describe('a :memory: database for each test', () => {
  test.each([1, 2, 3])('starts empty (%i)', async () => {
    const { db, ratelimit } = await host();
    const handle = db.initDb(':memory:');
    expect(ratelimit.getRateLimitStatus('groq', 'm', 1, limits).rpm).toEqual({ used: 0, limit: 2 });
    ratelimit.recordRequest('groq', 'm', 1);
    expect(handle.prepare('SELECT count(*) AS n FROM rate_limit_usage').get()).toEqual({ n: 1 });
  });

  test('a new handle behind the same getDb is the one that counts', async () => {
    const { db, ratelimit } = await host();
    db.initDb(':memory:');
    ratelimit.recordRequest('groq', 'm', 1);
    db.initDb(':memory:');
    expect(ratelimit.getRateLimitStatus('groq', 'm', 1, limits).rpm.used).toBe(0);
  });

  test('fake timers move windows and cooldowns', async () => {
    const { db, ratelimit } = await host();
    db.initDb(':memory:');
    ratelimit.recordRequest('groq', 'm', 1);
    ratelimit.recordRequest('groq', 'm', 1);
    expect(ratelimit.canMakeRequest('groq', 'm', 1, limits)).toBe(false);
    vi.advanceTimersByTime(60_000);
    expect(ratelimit.canMakeRequest('groq', 'm', 1, limits)).toBe(true);

    const source: CooldownSource = 'authoritative';
    ratelimit.setCooldown('groq', 'm', 1, 5000, source);
    vi.advanceTimersByTime(5001);
    expect(ratelimit.isOnCooldown('groq', 'm', 1)).toBe(false);
  });

  test('a host transaction that rolls back takes our rows with it', async () => {
    const { db, ratelimit } = await host();
    const handle = db.initDb(':memory:');
    const work = handle.transaction(() => {
      ratelimit.recordRequest('groq', 'm', 1);
      throw new Error('no');
    });
    expect(work).toThrow('no');
    expect(ratelimit.getRateLimitStatus('groq', 'm', 1, limits).rpm.used).toBe(0);
  });

  test('a probe brings a key back early', async () => {
    const { db, keys, ratelimit, probe } = await host();
    db.initDb(':memory:');
    keys.setAnswer(7, 'valid');
    ratelimit.setCooldown('groq', 'm', 7, 600_000);
    vi.advanceTimersByTime(300_000);
    await probe.runCooldownProbePass({ jitter: () => 0 });
    const pass = await probe.runCooldownProbePass({ jitter: () => 0 });
    expect(pass).toEqual({ probedKeyIds: [7], clearedCooldowns: 1 });
    expect(ratelimit.isOnCooldown('groq', 'm', 7)).toBe(false);
  });

  test('the context of an observation reaches the parser', async () => {
    const { quota } = await host();
    const headers = new Headers({ 'x-ratelimit-limit-requests': '100', 'x-ratelimit-remaining-requests': '25' });
    const seen = await quota.runWithQuotaObservationContext({ platform: 'groq', keyId: 3 }, async () =>
      quota.parseQuotaObservationsFromResponse({ status: 200, headers }),
    );
    expect(seen[0]).toMatchObject({ platform: 'groq', keyId: 3, metric: 'requests', limit: 100, remaining: 25 });
  });
});

describe('a closed database', () => {
  test('nothing throws, and nothing is forgotten', async () => {
    const { db, ratelimit } = await host();
    db.initDb(':memory:').close();
    ratelimit.recordRequest('groq', 'm', 1);
    ratelimit.recordRequest('groq', 'm', 1);
    expect(ratelimit.canMakeRequest('groq', 'm', 1, limits)).toBe(false);
    expect(ratelimit.getProbeableCooldowns()).toEqual([]);
    expect(ratelimit.learnLimitFromError(1, { message: 'Limit: 5 requests per minute' })).toBeNull();
  });
});
