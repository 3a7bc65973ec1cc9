// What the rate-limit functions take, for tests that call all of them.

export const limits = { rpm: 1, rpd: 1, tpm: 1, tpd: 1 };

// Function → the kinds of its arguments. `?` may be left out, `??` may be null as well; `limits` must be an object.
export const signatures = {
  acquireLease: ['string', 'string', 'number', 'number', 'number?'],
  canMakeRequest: ['string', 'string', 'number', 'limits'],
  canUseKeyConcurrency: ['string', 'number', 'number?'],
  canUseProvider: ['string', 'number', 'number?'],
  canUseProviderMinute: ['string', 'number', 'number?'],
  canUseProviderTokens: ['string', 'number', 'string', 'number', 'number?'],
  canUseTokens: ['string', 'string', 'number', 'number', 'limits'],
  cleanupExpiredCooldowns: ['number?'],
  clearCooldownEarly: ['string', 'string', 'number'],
  clearCooldownsForKey: ['number'],
  getActiveCooldownsForKeys: ['numbers', 'number?'],
  getCooldownDecisionForLimit: ['string', 'string', 'number', 'limits', 'number??', 'object??'],
  getCooldownDurationForLimit: ['string', 'string', 'number', 'limits', 'number??', 'object??'],
  getKeyConcurrencyLimit: ['string'],
  getNextCooldownDuration: ['string', 'string', 'number'],
  getProbeableCooldowns: ['number?'],
  getProviderDailyRequestCap: ['string', 'number??'],
  getProviderDailyTokenCap: ['string', 'number??'],
  getProviderMinuteRequestCap: ['string', 'number??'],
  getRateLimitStatus: ['string', 'string', 'number', 'limits'],
  getSoonestCooldownExpiry: ['number?'],
  inFlightForKey: ['string', 'number', 'number?'],
  isLocalEndpointKey: ['number'],
  isOnCooldown: ['string', 'string', 'number'],
  providerDailyRequestCount: ['string', 'number', 'number?'],
  providerDailyTokenCount: ['string', 'number', 'number?'],
  providerMinuteRequestCount: ['string', 'number', 'number?'],
  recentHitCount: ['string', 'string', 'number', 'number?', 'number?'],
  recordRequest: ['string', 'string', 'number'],
  recordTokens: ['string', 'string', 'number', 'number'],
  releaseLease: ['number??'],
  setCooldown: ['string', 'string', 'number', 'number?', 'source?'],
};

export const good = { string: 'p', number: 1, limits, numbers: [1], object: {}, source: 'tier' };

/** Arguments of the right types for a function. */
export function goodArgs(kinds) {
  return kinds.map((kind) => good[kind.replaceAll('?', '')]);
}
