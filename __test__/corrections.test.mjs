// Each correction of the default mode beside what the recorded mode does. The numbers are those of docs/differences.md.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bothModes, DAY, HOUR, MINUTE, NOON, noLimits } from './support/host.mjs';

const MIDNIGHT = NOON - 12 * HOUR;
const route = ['p', 'm', 1];

/** Asks the same of a host in each mode: `{ recorded, corrected }`. */
function compare(t, ask, options) {
  return Object.fromEntries(Object.entries(bothModes(t, options)).map(([mode, host]) => [mode, ask(host)]));
}

describe('1. day windows', () => {
  // One request and 10 tokens at three instants: yesterday, the very midnight, and one millisecond into the day.
  const prepare = (host) => {
    host.addKey(1, 'p');
    for (const at of [MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 1]) {
      host.addUsage(...route, 'request', 0, at);
      host.addUsage(...route, 'tokens', 10, at);
    }
  };
  const limits = (rpd, tpd) => ({ rpm: null, rpd, tpm: null, tpd });
  const everywhere = (host) => {
    prepare(host);
    const { core } = host;
    const status = core.getRateLimitStatus(...route, limits(null, null));
    return {
      status: status.rpd.used,
      requestsPass: [2, 3, 4].filter((rpd) => core.canMakeRequest(...route, limits(rpd, null))),
      tokensPass: [19, 20, 29, 30].filter((tpd) => core.canUseTokens(...route, 1, limits(null, tpd + 1))),
      spent: [1, 2, 3, 4].filter((rpd) => core.getCooldownDurationForLimit(...route, { rpd, tpd: null }) > 90_000),
      fraction: core.modelWindowUsedFraction({ platform: 'p', modelId: 'm' }, limits(6, null)),
    };
  };

  test('the default: since midnight UTC, midnight included; recorded slides over 24 hours', (t) => {
    const { recorded, corrected } = compare(t, everywhere);
    assert.deepEqual(corrected, {
      status: 2,
      requestsPass: [3, 4],
      tokensPass: [20, 29, 30],
      spent: [1, 2],
      fraction: 2 / 6,
    });
    assert.deepEqual(recorded, {
      status: 3,
      requestsPass: [4],
      tokensPass: [30],
      spent: [1, 2, 3],
      fraction: 3 / 6,
    });
  });

  test('sliding-24h can be asked for', (t) => {
    const { recorded, corrected } = compare(t, everywhere, { core: { dayWindow: 'sliding-24h' } });
    assert.equal(corrected.status, 3);
    assert.deepEqual(corrected, recorded);
  });

  test('utc-day in recorded mode leaves out the very midnight', (t) => {
    const { recorded, corrected } = compare(t, everywhere, { core: { dayWindow: 'utc-day' } });
    assert.equal(corrected.status, 2);
    assert.equal(recorded.status, 1);
  });

  test('account counts are since midnight in both, which is included in the default', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      prepare(host);
      return [host.core.providerDailyRequestCount('p', 1), host.core.providerDailyTokenCount('p', 1)];
    });
    assert.deepEqual(corrected, [2, 20]);
    assert.deepEqual(recorded, [1, 10]);
  });

  test('a limit spent before midnight is there again at midnight', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.now = MIDNIGHT - 1;
      host.core.recordRequest(...route);
      host.now = MIDNIGHT;
      return host.core.canMakeRequest(...route, limits(1, null));
    });
    assert.equal(corrected, true);
    assert.equal(recorded, false);
  });
});

test('2. a model offered on several endpoints counts its tokens once', (t) => {
  const { recorded, corrected } = compare(t, (host) => {
    for (const scope of ['', 'eu', 'us'])
      host.addModel('navy', 'm', { endpoint_scope: scope, monthly_token_budget: '2x' });
    host.core.recordTokens('navy', 'm', 1, 100);
    return host.core.providerDailyTokenCount('navy', 1);
  });
  assert.equal(corrected, 200);
  assert.equal(recorded, 600);
});

describe('3. while the database answers, it is the truth', () => {
  test('a bench that the host deleted', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.core.setCooldown(...route, MINUTE);
      assert.equal(host.core.isOnCooldown(...route), true);
      host.sql('DELETE FROM rate_limit_cooldowns');
      return host.core.isOnCooldown(...route);
    });
    assert.deepEqual({ recorded, corrected }, { recorded: true, corrected: false });
  });

  test('a bench that the host rolled back', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.sql('BEGIN');
      host.core.setCooldown(...route, MINUTE);
      assert.equal(host.core.isOnCooldown(...route), true);
      host.sql('ROLLBACK');
      return host.core.isOnCooldown(...route);
    });
    assert.deepEqual({ recorded, corrected }, { recorded: true, corrected: false });
  });

  test('a bench set while the database was away counts in both', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.close();
      host.core.setCooldown(...route, MINUTE);
      host.open();
      return host.core.isOnCooldown(...route);
    });
    assert.deepEqual({ recorded, corrected }, { recorded: true, corrected: true });
  });
});

test('4. a bench that became authoritative while its probe was pending stays', async (t) => {
  const hosts = bothModes(t);
  const benched = {};
  for (const [mode, host] of Object.entries(hosts)) {
    host.core.setCooldown(...route, HOUR);
    const pass = () =>
      host.core.runCooldownProbePass({
        jitter: () => 0,
        probe: async () => {
          host.core.setCooldown(...route, DAY, 'authoritative');
          return 'valid';
        },
      });
    host.advance(31 * MINUTE);
    await pass();
    await pass();
    benched[mode] = host.core.isOnCooldown(...route);
  }
  assert.deepEqual(benched, { recorded: false, corrected: true });
});

test('5. a probe that rejects is an error with back-off, and the pass goes on', async (t) => {
  const { recorded, corrected } = bothModes(t);
  const prepare = async (host) => {
    for (const keyId of [1, 2]) host.core.setCooldown('p', 'm', keyId, HOUR + keyId);
    host.advance(31 * MINUTE);
    await host.core.runCooldownProbePass({ jitter: () => 0, probe: async () => 'valid' });
  };
  const pass = (host) =>
    host.core.runCooldownProbePass({
      jitter: () => 0,
      probe: async (keyId) => {
        if (keyId === 1) throw new Error('the probe failed');
        return 'valid';
      },
    });
  await prepare(recorded);
  await assert.rejects(pass(recorded), /the probe failed/);
  await prepare(corrected);
  assert.deepEqual(await pass(corrected), { probedKeyIds: [1, 2], clearedCooldowns: 1 });
  assert.deepEqual(await pass(corrected), { probedKeyIds: [], clearedCooldowns: 0 });
  corrected.advance(2 * MINUTE);
  assert.deepEqual(await pass(corrected), { probedKeyIds: [1], clearedCooldowns: 0 });
});

test('6. clearing a key forgets the ladder and the unknown-limit hits of every route of it', (t) => {
  const { recorded, corrected } = compare(t, ({ core, now }) => {
    const unknown = { rpd: null, tpd: null };
    core.getNextCooldownDuration(...route);
    core.getCooldownDecisionForLimit('p', 'other', 1, unknown);
    core.clearCooldownsForKey(1);
    return [core.getNextCooldownDuration(...route), core.recentHitCount('p', 'other', 1, now)];
  });
  assert.deepEqual(corrected, [2 * MINUTE, 0]);
  assert.deepEqual(recorded, [10 * MINUTE, 1]);
});

test('7. a sum too large for 64 bits closes the gate', (t) => {
  const huge = 5_000_000_000_000_000_000;
  const { recorded, corrected } = compare(t, (host) => {
    host.core.recordTokens('navy', 'm', 1, huge);
    host.core.recordTokens('navy', 'm', 1, huge);
    return {
      tokens: host.core.canUseTokens('navy', 'm', 1, 1, { tpm: 1000, tpd: null }),
      account: host.core.canUseProviderTokens('navy', 1, 'm', 1),
      count: host.core.providerDailyTokenCount('navy', 1),
    };
  });
  assert.deepEqual(recorded, { tokens: true, account: true, count: 0 });
  assert.equal(corrected.tokens, false);
  assert.equal(corrected.account, false);
  assert.ok(corrected.count >= 2 ** 62, String(corrected.count));
});

test('8. a limit of 0 is full use in the window snapshot', (t) => {
  const { recorded, corrected } = compare(t, (host) => {
    host.addKey(1, 'p');
    return host.core.modelWindowUsedFraction({ platform: 'p', modelId: 'm' }, { ...noLimits, rpm: 0 });
  });
  assert.deepEqual({ recorded, corrected }, { recorded: 0, corrected: 1 });
});

describe('9. learning from texts', () => {
  // Text → what each mode reads.
  const texts = [
    ['limit 12k tpm', { kind: 'tpm', limit: 12 }, { kind: 'tpm', limit: 12_000 }],
    ['limit 1.5M tokens per day', { kind: 'tpd', limit: 1 }, { kind: 'tpd', limit: 1_500_000 }],
    ['limit 50 000 rpm', { kind: 'rpm', limit: 50 }, { kind: 'rpm', limit: 50_000 }],
    ['limit 50\u00a0000 rpm', { kind: 'rpm', limit: 50 }, { kind: 'rpm', limit: 50_000 }],
    ['limit 50\u202f000 rpm', { kind: 'rpm', limit: 50 }, { kind: 'rpm', limit: 50_000 }],
    ['limit 60.000000 rpm', { kind: 'rpm', limit: 60 }, { kind: 'rpm', limit: 60 }],
    ['limit=60 rpm', null, { kind: 'rpm', limit: 60 }],
    ['limit of 60 requests per minute', null, { kind: 'rpm', limit: 60 }],
    ['limit 1e3 rpm', { kind: 'rpm', limit: 1 }, null],
    ['limit 15abc rpm', { kind: 'rpm', limit: 15 }, null],
    ['tokens per minute, limit: 10000 neurons', { kind: 'tpm', limit: 10_000 }, null],
    ['requests per day, limit 10 credits', { kind: 'rpd', limit: 10 }, null],
    ['tokens per minute, limit: 8192 context tokens', { kind: 'tpm', limit: 8192 }, null],
    ['limit 500 requests per hour, rpm', { kind: 'rpm', limit: 500 }, null],
  ];
  for (const [text, recordedAnswer, correctedAnswer] of texts) {
    test(JSON.stringify(text), (t) => {
      const { recorded, corrected } = compare(t, ({ core }) => core.parseProviderLimit(text));
      assert.deepEqual(corrected, correctedAnswer);
      assert.deepEqual(recorded, recordedAnswer);
    });
  }
});

describe('10. memory', () => {
  test('keys of memory maps cannot collide', (t) => {
    const { recorded, corrected } = compare(
      t,
      (host) => {
        host.core.recordRequest('q', 'a:1', 2);
        host.core.recordRequest('q:a', '1', 2);
        return host.core.getRateLimitStatus('q', 'a:1', 2, noLimits).rpm.used;
      },
      { closed: true },
    );
    assert.deepEqual({ recorded, corrected }, { recorded: 2, corrected: 1 });
  });

  test('unknown-limit hits older than their hour are forgotten', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      const unknown = { rpd: null, tpd: null };
      host.core.getCooldownDecisionForLimit(...route, unknown);
      host.advance(2 * HOUR);
      host.core.getCooldownDecisionForLimit(...route, unknown);
      return host.core.recentHitCount(...route, host.now, DAY);
    });
    assert.equal(corrected, 1);
    assert.ok(recorded >= corrected);
  });
});

describe('11. Retry-After and reset headers', () => {
  const parse = (host, status, headers) =>
    host.core.parseQuotaObservationsFromResponse(new Response(null, { status, headers }), {
      platform: 'groq',
      keyId: 1,
    });
  const retryAfter = (value) => (host) =>
    parse(host, 429, { 'retry-after': value }).find(
      (seen) => seen.retryAfterMs !== undefined && seen.retryAfterMs !== null,
    )?.retryAfterMs ?? null;

  for (const [value, expected] of [
    ['30', 30_000],
    ['1.5', 1500],
    ['0', 0],
    ['-5', null],
    ['in 5', null],
    ['1e16', null],
    ['', null],
  ]) {
    test(`Retry-After: ${value}`, (t) => {
      const { corrected } = bothModes(t);
      assert.equal(retryAfter(value)(corrected), expected);
    });
  }

  test('an HTTP date', (t) => {
    const { recorded, corrected } = compare(t, retryAfter(new Date(NOON + 90_000).toUTCString()));
    assert.deepEqual({ recorded, corrected }, { recorded: 90_000, corrected: 90_000 });
  });

  for (const [value, ms] of [
    ['1h30m15s', 5_415_000],
    ['250ms', 250],
    ['7.66s', 7660],
    ['2m', 120_000],
  ]) {
    test(`a reset of ${value}`, (t) => {
      const reset = (host) =>
        parse(host, 200, {
          'x-ratelimit-limit-requests': '10',
          'x-ratelimit-remaining-requests': '1',
          'x-ratelimit-reset-requests': value,
        })[0].resetAt ?? null;
      const { recorded, corrected } = compare(t, reset);
      assert.equal(recorded, null);
      assert.equal(Date.parse(corrected), NOON + ms);
    });
  }

  test('a huge reset never throws', (t) => {
    const headers = { 'x-ratelimit-limit-requests': '10', 'x-ratelimit-reset-requests': '1e300' };
    const { recorded, corrected } = bothModes(t);
    assert.throws(() => parse(recorded, 200, headers), RangeError);
    assert.equal(parse(corrected, 200, headers)[0].limit, 10);
  });
});

describe('12. numbers that make no sense', () => {
  const tight = { tpm: 1, tpd: null };

  test('NaN tokens open no gate', (t) => {
    const { recorded, corrected } = compare(t, ({ core }) => {
      core.recordTokens(...route, 5);
      return core.canUseTokens(...route, NaN, tight);
    });
    assert.deepEqual({ recorded, corrected }, { recorded: true, corrected: false });
  });

  test('negative tokens make no room', (t) => {
    const { recorded, corrected } = compare(t, ({ core }) => {
      core.recordTokens(...route, 5);
      core.acquireLease(...route, -100);
      core.recordTokens(...route, -100);
      return [core.canUseTokens(...route, 0, tight), core.canUseTokens(...route, -100, { tpm: 4, tpd: null })];
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [true, true], corrected: [false, false] });
  });

  test('a lease of NaN tokens closes nothing and opens nothing', (t) => {
    const { recorded, corrected } = compare(t, ({ core }) => {
      core.acquireLease(...route, NaN);
      return [core.canUseTokens(...route, 2, tight), core.canUseTokens(...route, 1, tight)];
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [true, true], corrected: [false, true] });
  });

  test('infinite and fractional tokens count up', (t) => {
    const { corrected } = bothModes(t);
    corrected.core.recordTokens(...route, 1.2);
    assert.equal(corrected.core.getRateLimitStatus(...route, noLimits).tpm.used, 2);
    assert.equal(corrected.core.canUseTokens(...route, Infinity, { tpm: 1e12, tpd: null }), false);
    corrected.core.recordTokens(...route, Infinity);
    assert.equal(corrected.core.canUseTokens(...route, 0, { tpm: 1e12, tpd: null }), false);
  });

  test('NaN recorded is a row of 0 tokens; recorded mode loses it to a constraint', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.core.recordTokens(...route, NaN);
      return host.all('SELECT tokens FROM rate_limit_usage');
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [], corrected: [{ tokens: 0 }] });
  });

  test('limits that make no sense close the gate', (t) => {
    const {
      corrected: { core },
    } = bothModes(t);
    for (const limit of [NaN, -1, -Infinity]) {
      assert.equal(core.canMakeRequest(...route, { ...noLimits, rpm: limit }), false, String(limit));
      assert.equal(core.canUseTokens(...route, 1, { tpm: limit, tpd: null }), false, String(limit));
    }
  });

  test('it warns once', (t) => {
    const { corrected } = bothModes(t);
    for (let index = 0; index < 5; index += 1) {
      corrected.core.recordTokens(...route, NaN);
      corrected.core.canUseTokens(...route, -1, tight);
      corrected.core.acquireLease(...route, Infinity);
    }
    assert.equal(corrected.warnings.length, 1, JSON.stringify(corrected.warnings));
  });
});

describe('13. a clock that steps back', () => {
  test('drops the window snapshot', (t) => {
    const { corrected } = bothModes(t);
    corrected.addKey(1, 'p');
    const fraction = () =>
      corrected.core.modelWindowUsedFraction({ platform: 'p', modelId: 'm' }, { ...noLimits, rpm: 2 });
    corrected.now = NOON + 1000;
    assert.equal(fraction(), 0);
    corrected.now = NOON;
    corrected.addUsage(...route, 'request', 0, NOON);
    assert.equal(fraction(), 0.5);
  });

  test('drops the headroom of a reset that has not come yet', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.core.recordQuotaObservation({
        platform: 'groq',
        keyId: 1,
        metric: 'requests',
        limit: 10,
        remaining: 0,
        source: 'header',
        resetAt: new Date(NOON + 5000).toISOString(),
      });
      host.now = NOON + 10_000;
      const later = host.core.getKeyQuotaHeadroom('groq').get(1);
      host.now = NOON;
      return [later, host.core.getKeyQuotaHeadroom('groq').get(1)];
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [1, 1], corrected: [1, 0] });
  });
});

test('14. platform names such as constructor have no cap', (t) => {
  const {
    corrected: { core },
  } = bothModes(t);
  for (const platform of ['constructor', 'toString', '__proto__', 'hasOwnProperty', 'valueOf']) {
    assert.equal(core.getProviderDailyRequestCap(platform), null);
    assert.equal(core.getProviderMinuteRequestCap(platform), null);
    assert.equal(core.getProviderDailyTokenCap(platform), null);
    assert.equal(core.getKeyConcurrencyLimit(platform), null);
    assert.equal(core.canUseProvider(platform, 1), true);
    assert.equal(core.canUseProviderMinute(platform, 1), true);
    assert.equal(core.canUseProviderTokens(platform, 1, 'm', 1e9), true);
  }
});
