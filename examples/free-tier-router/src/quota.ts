// The host's one instance. ratelimit.ts, cooldown-probe.ts and provider-quota.ts become `export * from './quota.js'`.
import * as quota from 'quota-core';
import { getDb } from './db.js';
import { validateKey } from './keys.js';

export const quotaCore = quota.createQuotaCore({ database: getDb, probe: validateKey });

export const { acquireLease, releaseLease, resetLeases, inFlightForKey, canMakeRequest, canUseTokens } = quotaCore;
export const { getKeyConcurrencyLimit, canUseKeyConcurrency, getRateLimitStatus, recordRequest } = quotaCore;
export const { getProviderDailyRequestCap, getProviderMinuteRequestCap, getProviderDailyTokenCap } = quotaCore;
export const { providerDailyRequestCount, providerMinuteRequestCount, providerDailyTokenCount } = quotaCore;
export const { canUseProvider, canUseProviderMinute, canUseProviderTokens, recordTokens } = quotaCore;
export const { modelWindowUsedFraction, invalidateWindowUsage, isOnCooldown, setCooldown } = quotaCore;
export const { getActiveCooldownsForKeys, clearCooldownsForKey, clearCooldownEarly, recentHitCount } = quotaCore;
export const { cleanupExpiredCooldowns, getProbeableCooldowns, getSoonestCooldownExpiry } = quotaCore;
export const { getNextCooldownDuration, getCooldownDecisionForLimit, getCooldownDurationForLimit } = quotaCore;
export const { isLocalEndpointKey, resetKeyLocalityCache, learnLimitFromError } = quotaCore;
export const { runCooldownProbePass, startCooldownProbe, stopCooldownProbe, resetCooldownProbeState } = quotaCore;
export const { runWithQuotaObservationContext, getQuotaObservationContext, getQuotaStateForKeys } = quotaCore;
export const { parseQuotaObservationsFromResponse, recordQuotaObservationsFromResponse } = quotaCore;
export const { recordQuotaObservation, getKeyQuotaHeadroom, invalidateKeyQuotaHeadroom } = quotaCore;
export const { parseProviderLimit, isLoopbackOrPrivateUrl, inferQuotaPoolKey, isSharedPool } = quotaCore;
export const { AUTH_FAILURE_COOLDOWN_MS, LOCAL_ENDPOINT_COOLDOWN_MS, MODEL_FORBIDDEN_COOLDOWN_MS } = quota;
export const { PAYMENT_REQUIRED_COOLDOWN_MS, WINDOW_USAGE_TTL_MS } = quota;
export type * from 'quota-core';
