// Exports, types and documentation list the same names, and every function of the contract is among them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import quotaCore from '../index.js';
import * as fromEsm from '../index.mjs';
import { publicTypes, runtimeExports } from '../scripts/api.mjs';
import { read } from '../scripts/files.mjs';

const contract = `
  acquireLease releaseLease resetLeases inFlightForKey canMakeRequest canUseTokens getKeyConcurrencyLimit canUseKeyConcurrency
  getProviderDailyRequestCap getProviderMinuteRequestCap getProviderDailyTokenCap providerDailyRequestCount providerDailyTokenCount
  providerMinuteRequestCount canUseProvider canUseProviderMinute canUseProviderTokens getRateLimitStatus recordRequest recordTokens
  modelWindowUsedFraction invalidateWindowUsage setCooldown isOnCooldown getActiveCooldownsForKeys clearCooldownsForKey
  clearCooldownEarly cleanupExpiredCooldowns getProbeableCooldowns getSoonestCooldownExpiry getNextCooldownDuration recentHitCount
  getCooldownDecisionForLimit getCooldownDurationForLimit isLocalEndpointKey resetKeyLocalityCache isLoopbackOrPrivateUrl
  cooldownDecisionForError parseProviderLimit learnLimitFromError runCooldownProbePass startCooldownProbe stopCooldownProbe
  resetCooldownProbeState inferQuotaPoolKey isSharedPool runWithQuotaObservationContext getQuotaObservationContext
  parseQuotaObservationsFromResponse recordQuotaObservation recordQuotaObservationsFromResponse getQuotaStateForKeys
  getKeyQuotaHeadroom invalidateKeyQuotaHeadroom headroomFactor rateWindowHeadroomFactor orderKeysByRemainingQuota
`
  .trim()
  .split(/\s+/);

const constants = {
  WINDOW_USAGE_TTL_MS: 5000,
  PAYMENT_REQUIRED_COOLDOWN_MS: 86_400_000,
  MODEL_FORBIDDEN_COOLDOWN_MS: 86_400_000,
  LOCAL_ENDPOINT_COOLDOWN_MS: 5000,
  AUTH_FAILURE_COOLDOWN_MS: 300_000,
};

const sorted = (names) => [...names].sort();

// Read once: each reading compiles all declarations.
const types = publicTypes();

test('every function of the contract is exported at the root and on an instance', () => {
  const core = quotaCore.createQuotaCore();
  for (const name of contract) {
    assert.equal(typeof quotaCore[name], 'function', name);
    assert.equal(typeof core[name], 'function', name);
  }
  core.close();
});

test('the constants have the values of the contract', () => {
  for (const [name, value] of Object.entries(constants)) assert.equal(quotaCore[name], value, name);
});

test('ESM and CommonJS export the same', () => {
  const { default: whole, ...named } = fromEsm;
  assert.deepEqual(sorted(Object.keys(named)), sorted(runtimeExports()));
  for (const name of runtimeExports()) assert.equal(named[name], quotaCore[name], name);
  assert.ok(whole === undefined || whole.createQuotaCore === quotaCore.createQuotaCore);
});

test('the types declare what is exported, with a doc comment each', () => {
  const values = [...types].filter(([, { value }]) => value).map(([name]) => name);
  assert.deepEqual(sorted(values), sorted(runtimeExports()));
  assert.deepEqual(sorted(publicTypes('index.d.mts').keys()), sorted(types.keys()));
  assert.deepEqual(
    [...types].filter(([, { documentation }]) => documentation === '').map(([name]) => name),
    [],
  );
});

test('the instance type has the members that an instance has', () => {
  const core = quotaCore.createQuotaCore();
  const { members } = types.get('QuotaCore');
  assert.deepEqual(sorted(members), sorted(Object.keys(core)));
  core.close();
});

test('docs/api.md lists every exported name', () => {
  const listed = [...read('docs/api.md').matchAll(/^\| `([A-Za-z_]\w*)/gm)].map((match) => match[1]);
  assert.deepEqual(sorted(listed), sorted(runtimeExports()));
});

test('docs/differences.md has an entry for each correction', () => {
  const numbers = [...read('docs/differences.md').matchAll(/^### (\d+)\. /gm)].map((match) => Number(match[1]));
  assert.deepEqual(
    numbers,
    Array.from({ length: 14 }, (_, index) => index + 1),
  );
});
