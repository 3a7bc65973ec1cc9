'use strict';

// Rate limits, leases, cooldowns and learned limits: checks arguments, reads clock and environment, calls the engine.

const { binding, hot } = require('./native.js');
const { requireNumber, requireObject, requireString } = require('./args.js');
const { createCooldowns } = require('./cooldowns.js');
const { CAP, createRateInputs } = require('./rate-inputs.js');

function createRateLimit(ctx) {
  const { recorded } = ctx;
  const rate = new binding.RateEngine(
    ctx.link,
    recorded,
    (ctx.options.dayWindow ?? (recorded ? 'sliding-24h' : 'utc-day')) === 'sliding-24h',
    ctx.options.index ?? true,
    ctx.options.leases ?? 'memory',
  );
  const engine = rate.number;
  const inputs = createRateInputs(ctx, rate);
  const { limitOf, requireLimits, tokensOf, instant, clock, publishedCap, getKeyConcurrencyLimit } = inputs;
  // A handle lives until enough others are asked for, and the caller's code (getters, the provider, the clock) may ask for
  // them: arguments are checked first, handles are the last thing before the native call.
  const { requireRoute, requireAccount, routeOf, accountOf } = inputs;

  /** Bit 1 of a verdict: the engine has something to tell. */
  function verdict(bits) {
    if (bits > 1) ctx.drain();
    return (bits & 1) === 1;
  }

  // Gates

  function canMakeRequest(platform, modelId, keyId, limits) {
    requireRoute(platform, modelId, keyId);
    requireLimits(limits);
    const rpm = limitOf(limits.rpm, 'limits.rpm');
    const rpd = limitOf(limits.rpd, 'limits.rpd');
    ctx.sync();
    const now = clock();
    return verdict(hot.canMakeRequest(engine, routeOf(platform, modelId, keyId), now, rpm, rpd));
  }

  function canUseTokens(platform, modelId, keyId, estimatedTokens, limits) {
    requireRoute(platform, modelId, keyId);
    const wanted = tokensOf(estimatedTokens, 'estimatedTokens');
    requireLimits(limits);
    const tpm = limitOf(limits.tpm, 'limits.tpm');
    const tpd = limitOf(limits.tpd, 'limits.tpd');
    ctx.sync();
    const now = clock();
    return verdict(hot.canUseTokens(engine, routeOf(platform, modelId, keyId), now, wanted, tpm, tpd));
  }

  function getRateLimitStatus(platform, modelId, keyId, limits) {
    requireRoute(platform, modelId, keyId);
    requireLimits(limits);
    for (const name of ['rpm', 'rpd', 'tpm', 'tpd']) limitOf(limits[name], `limits.${name}`);
    ctx.sync();
    const now = clock();
    const [rpm, rpd, tpm, tpd] = rate.used(routeOf(platform, modelId, keyId), now);
    ctx.drain();
    const status = {
      rpm: { used: rpm, limit: limits.rpm ?? null },
      rpd: { used: rpd, limit: limits.rpd ?? null },
      tpm: { used: tpm, limit: limits.tpm ?? null },
    };
    if (!recorded) status.tpd = { used: tpd, limit: limits.tpd ?? null };
    return status;
  }

  // Concurrency

  function inFlightForKey(platform, keyId, now) {
    requireAccount(platform, keyId);
    ctx.sync();
    const at = instant(now);
    return hot.inFlight(engine, accountOf(platform, keyId), at);
  }

  function canUseKeyConcurrency(platform, keyId, now) {
    requireAccount(platform, keyId);
    ctx.sync();
    const at = instant(now);
    const limit = getKeyConcurrencyLimit(platform);
    return limit === null || hot.inFlight(engine, accountOf(platform, keyId), at) < limit;
  }

  // Account-wide caps

  function capOf(cap, platform, keyId) {
    requireString(platform, 'platform');
    if (keyId !== undefined && keyId !== null) requireNumber(keyId, 'keyId');
    ctx.sync();
    const limit = publishedCap(cap, platform);
    if (keyId === undefined || keyId === null) return Number.isNaN(limit) ? null : limit;
    const own = rate.keyCap(cap, platform, keyId, limit);
    ctx.drain();
    return own;
  }

  const getProviderDailyRequestCap = (platform, keyId) => capOf(CAP.dailyRequests, platform, keyId);
  const getProviderMinuteRequestCap = (platform, keyId) => capOf(CAP.minuteRequests, platform, keyId);
  const getProviderDailyTokenCap = (platform, keyId) => capOf(CAP.dailyTokens, platform, keyId);

  function count(ask, platform, keyId, now, cap) {
    requireAccount(platform, keyId);
    ctx.sync();
    const at = instant(now);
    const limit = cap === undefined ? Number.NaN : publishedCap(cap, platform);
    const used = ask(accountOf(platform, keyId), at, limit);
    ctx.drain();
    return used;
  }

  const providerDailyRequestCount = (platform, keyId, now) =>
    count((account, at) => rate.dailyRequests(account, at), platform, keyId, now);
  const providerMinuteRequestCount = (platform, keyId, now) =>
    count((account, at) => rate.minuteRequests(account, at), platform, keyId, now);
  const providerDailyTokenCount = (platform, keyId, now) =>
    count((account, at, limit) => rate.dailyTokens(account, at, limit), platform, keyId, now, CAP.dailyTokens);

  function canUseProvider(platform, keyId, now) {
    requireAccount(platform, keyId);
    ctx.sync();
    const at = instant(now);
    const limit = publishedCap(CAP.dailyRequests, platform);
    return verdict(hot.canUseProvider(engine, accountOf(platform, keyId), at, limit));
  }

  function canUseProviderMinute(platform, keyId, now) {
    requireAccount(platform, keyId);
    ctx.sync();
    const at = instant(now);
    const limit = publishedCap(CAP.minuteRequests, platform);
    return verdict(hot.canUseProviderMinute(engine, accountOf(platform, keyId), at, limit));
  }

  function canUseProviderTokens(platform, keyId, modelId, estimatedTokens, now) {
    requireRoute(platform, modelId, keyId);
    const wanted = tokensOf(estimatedTokens, 'estimatedTokens');
    ctx.sync();
    const limit = publishedCap(CAP.dailyTokens, platform);
    const at = instant(now);
    return verdict(hot.canUseProviderTokens(engine, routeOf(platform, modelId, keyId), wanted, at, limit));
  }

  // Leases and records

  function acquireLease(platform, modelId, keyId, tokens, now) {
    requireRoute(platform, modelId, keyId);
    const held = tokensOf(tokens, 'tokens');
    ctx.sync();
    const at = instant(now);
    return hot.acquireLease(engine, routeOf(platform, modelId, keyId), held, at);
  }

  function releaseLease(leaseId) {
    ctx.sync();
    if (typeof leaseId === 'number') hot.releaseLease(engine, leaseId);
    else if (leaseId !== undefined && leaseId !== null) requireNumber(leaseId, 'leaseId');
  }

  function resetLeases() {
    ctx.sync();
    rate.resetLeases();
  }

  function recordRequest(platform, modelId, keyId) {
    requireRoute(platform, modelId, keyId);
    ctx.sync();
    const now = clock();
    verdict(hot.recordRequest(engine, routeOf(platform, modelId, keyId), now));
  }

  function recordTokens(platform, modelId, keyId, tokens) {
    requireRoute(platform, modelId, keyId);
    const used = tokensOf(tokens, 'tokens');
    ctx.sync();
    const now = clock();
    verdict(hot.recordTokens(engine, routeOf(platform, modelId, keyId), used, now));
  }

  // Window snapshot

  function modelWindowUsedFraction(model, limits, now) {
    requireObject(model, 'model');
    const platform = requireString(model.platform, 'model.platform');
    const modelId = requireString(model.modelId, 'model.modelId');
    const keyId = model.keyId ?? null;
    if (keyId !== null) requireNumber(keyId, 'model.keyId');
    requireLimits(limits);
    const [rpm, rpd, tpm, tpd] = ['rpm', 'rpd', 'tpm', 'tpd'].map((name) => limitOf(limits[name], `limits.${name}`));
    ctx.sync();
    const fraction = rate.windowUsedFraction(platform, modelId, keyId, rpm, rpd, tpm, tpd, instant(now));
    ctx.drain();
    return fraction;
  }

  function invalidateWindowUsage() {
    ctx.sync();
    rate.invalidateWindowUsage();
  }

  ctx.onReset(() => rate.reset());
  ctx.onInspect(() => rate.inspect());

  return {
    rate,
    inputs,
    api: {
      canMakeRequest,
      canUseTokens,
      getRateLimitStatus,
      getKeyConcurrencyLimit,
      canUseKeyConcurrency,
      inFlightForKey,
      getProviderDailyRequestCap,
      getProviderMinuteRequestCap,
      getProviderDailyTokenCap,
      providerDailyRequestCount,
      providerMinuteRequestCount,
      providerDailyTokenCount,
      canUseProvider,
      canUseProviderMinute,
      canUseProviderTokens,
      acquireLease,
      releaseLease,
      resetLeases,
      recordRequest,
      recordTokens,
      ...createCooldowns(ctx, { rate, inputs, verdict }),
      modelWindowUsedFraction,
      invalidateWindowUsage,
    },
  };
}

module.exports = { createRateLimit };
