// Each correction of the default mode beside what the recorded mode does; the numbers are those of docs/differences.md.
// Texts and headers (9, 11) and odd numbers (12) have files of their own.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bothModes, compare, DAY, HOUR, MINUTE, NOON, noLimits } from './support/host.mjs';

const MIDNIGHT = NOON - 12 * HOUR;
const route = ['p', 'm', 1];

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
      host.env.PROVIDER_DAILY_TOKEN_CAP_P = '1000';
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
  const { recorded, corrected } = compare(t, (host) => {
    const row = `('navy', 'm', 1, 'tokens', 5000000000000000000, ${host.now})`;
    host.sql(
      `INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES ${row}, ${row}`,
    );
    return {
      tokens: host.core.canUseTokens('navy', 'm', 1, 1, { tpm: 1000, tpd: null }),
      account: host.core.canUseProviderTokens('navy', 1, 'm', 1),
      count: host.core.providerDailyTokenCount('navy', 1),
    };
  });
  assert.deepEqual(recorded, { tokens: true, account: true, count: 0 });
  assert.deepEqual(corrected, { tokens: false, account: false, count: 1e19 });
});

test('8. a limit of 0 is full use in the window snapshot', (t) => {
  const { recorded, corrected } = compare(t, (host) => {
    host.addKey(1, 'p');
    return host.core.modelWindowUsedFraction({ platform: 'p', modelId: 'm' }, { ...noLimits, rpm: 0 });
  });
  assert.deepEqual({ recorded, corrected }, { recorded: 0, corrected: 1 });
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
