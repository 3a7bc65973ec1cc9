'use strict';

// Rate limits, leases, cooldowns and learned limits: checks arguments, reads clock and environment, calls the engine.

const { binding } = require('./native.js');
const { invalidArgument } = require('./errors.js');
const { describe, numberOrNone, requireNumber, requireObject, requireString } = require('./args.js');
const { createRoutes } = require('./routes.js');

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const COOLDOWN_SOURCES = ['heuristic', 'authoritative', 'credit', 'tier'];

const CAPS = ['PROVIDER_DAILY_REQUEST_CAP_', 'PROVIDER_MINUTE_REQUEST_CAP_', 'PROVIDER_DAILY_TOKEN_CAP_'];
const [DAILY_REQUESTS, MINUTE_REQUESTS, DAILY_TOKENS] = [0, 1, 2];
const CONCURRENCY = 'MAX_CONCURRENT_REQUESTS_PER_KEY';

function createRateLimit(ctx) {
  const { recorded } = ctx;
  const rate = new binding.RateEngine(
    ctx.link,
    recorded,
    (ctx.options.dayWindow ?? (recorded ? 'sliding-24h' : 'utc-day')) === 'sliding-24h',
    ctx.options.index ?? true,
  );
  // Hot calls are plain functions on the engine's number.
  const native = binding;
  const engine = rate.number;
  const routes = createRoutes(rate);

  /** Bit 1 of a verdict: the engine has something to tell. */
  function verdict(bits) {
    if (bits > 1) ctx.drain();
    return (bits & 1) === 1;
  }

  /** Numbers that make no sense are clamped once the recorded behaviour is off, and told once. */
  let warnedOfNumber = false;
  function clamped(name, to) {
    if (!warnedOfNumber) ctx.warn('quota:number', `${name} makes no sense as a number: counted as ${to}`);
    warnedOfNumber = true;
    return to;
  }

  function limitOf(limits, name) {
    const limit = numberOrNone(limits[name], `limits.${name}`);
    if (limit >= 0 || recorded || limits[name] === null || limits[name] === undefined) return limit;
    return clamped(`limits.${name}`, 0);
  }

  function requireLimits(limits) {
    if (limits === null || typeof limits !== 'object') {
      throw invalidArgument(`limits must be an object { rpm, rpd, tpm, tpd }, not ${describe(limits)}`);
    }
    return limits;
  }

  function tokensOf(tokens, name) {
    requireNumber(tokens, name);
    if (!recorded && !(tokens >= 0 && Number.isInteger(tokens))) {
      clamped(name, 'the next whole number, or 0');
    }
    return tokens;
  }

  function instant(value) {
    if (value === undefined) return clock();
    requireNumber(value, 'now');
    if (recorded || Number.isFinite(value)) return value;
    clamped('now', 'the present');
    return clock();
  }

  function clock() {
    const value = ctx.now();
    return Number.isFinite(value) || recorded ? value : ctx.systemNow();
  }

  function routeOf(platform, modelId, keyId) {
    requireString(platform, 'platform');
    requireString(modelId, 'modelId');
    requireNumber(keyId, 'keyId');
    return routes.route(platform, modelId, keyId);
  }

  function accountOf(platform, keyId) {
    requireString(platform, 'platform');
    requireNumber(keyId, 'keyId');
    return routes.account(platform, keyId);
  }

  const envNames = new Map();
  const PREFIXES = [...CAPS, `${CONCURRENCY}_`];

  /** The text of a platform's variable; `prefix` is its place in PREFIXES. */
  function platformEnv(prefix, platform) {
    let names = envNames.get(platform);
    if (names === undefined) {
      if (envNames.size > 10_000) envNames.clear();
      const upper = platform.toUpperCase();
      names = PREFIXES.map((name) => `${name}${upper}`);
      envNames.set(platform, names);
    }
    return envText(names[prefix]);
  }

  function envText(name) {
    const value = ctx.env()[name];
    return value === undefined || value === null ? undefined : String(value);
  }

  // Gates

  function canMakeRequest(platform, modelId, keyId, limits) {
    const route = routeOf(platform, modelId, keyId);
    requireLimits(limits);
    const rpm = limitOf(limits, 'rpm');
    const rpd = limitOf(limits, 'rpd');
    ctx.sync();
    return verdict(native.canMakeRequest(engine, route, clock(), rpm, rpd));
  }

  function canUseTokens(platform, modelId, keyId, estimatedTokens, limits) {
    const route = routeOf(platform, modelId, keyId);
    const wanted = tokensOf(estimatedTokens, 'estimatedTokens');
    requireLimits(limits);
    const tpm = limitOf(limits, 'tpm');
    const tpd = limitOf(limits, 'tpd');
    ctx.sync();
    return verdict(native.canUseTokens(engine, route, clock(), wanted, tpm, tpd));
  }

  function getRateLimitStatus(platform, modelId, keyId, limits) {
    const route = routeOf(platform, modelId, keyId);
    requireLimits(limits);
    for (const name of ['rpm', 'rpd', 'tpm', 'tpd']) limitOf(limits, name);
    ctx.sync();
    const [rpm, rpd, tpm, tpd] = rate.used(route, clock());
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

  // The texts are read at each call; what they mean is remembered.
  let concurrencyTexts = [undefined, undefined];
  let concurrencyLimit = null;
  function getKeyConcurrencyLimit(platform) {
    requireString(platform, 'platform');
    ctx.assertOpen();
    const specific = platformEnv(CAPS.length, platform);
    const general = envText(CONCURRENCY);
    if (specific !== concurrencyTexts[0] || general !== concurrencyTexts[1]) {
      concurrencyLimit = native.keyConcurrencyLimit(specific, general);
      concurrencyTexts = [specific, general];
    }
    return concurrencyLimit;
  }

  function inFlightForKey(platform, keyId, now) {
    const account = accountOf(platform, keyId);
    ctx.sync();
    return native.inFlight(engine, account, instant(now));
  }

  function canUseKeyConcurrency(platform, keyId, now) {
    const account = accountOf(platform, keyId);
    ctx.sync();
    const at = instant(now);
    const limit = getKeyConcurrencyLimit(platform);
    return limit === null || native.inFlight(engine, account, at) < limit;
  }

  // Account-wide caps

  const published = CAPS.map(() => new Map());

  /** The platform's cap; NaN = none. */
  function publishedCap(cap, platform) {
    const text = platformEnv(cap, platform);
    const known = published[cap].get(platform);
    if (known !== undefined && known.text === text) return known.limit;
    if (published[cap].size > 10_000) published[cap].clear();
    const limit = native.publishedCap(cap, platform, text) ?? Number.NaN;
    published[cap].set(platform, { text, limit });
    return limit;
  }

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

  const getProviderDailyRequestCap = (platform, keyId) => capOf(DAILY_REQUESTS, platform, keyId);
  const getProviderMinuteRequestCap = (platform, keyId) => capOf(MINUTE_REQUESTS, platform, keyId);
  const getProviderDailyTokenCap = (platform, keyId) => capOf(DAILY_TOKENS, platform, keyId);

  function count(ask, platform, keyId, now) {
    const account = accountOf(platform, keyId);
    ctx.sync();
    const used = ask(account, instant(now));
    ctx.drain();
    return used;
  }

  const providerDailyRequestCount = (platform, keyId, now) =>
    count((account, at) => rate.dailyRequests(account, at), platform, keyId, now);
  const providerMinuteRequestCount = (platform, keyId, now) =>
    count((account, at) => rate.minuteRequests(account, at), platform, keyId, now);
  const providerDailyTokenCount = (platform, keyId, now) =>
    count((account, at) => rate.dailyTokens(account, at, publishedCap(DAILY_TOKENS, platform)), platform, keyId, now);

  function canUseProvider(platform, keyId, now) {
    const account = accountOf(platform, keyId);
    ctx.sync();
    return verdict(native.canUseProvider(engine, account, instant(now), publishedCap(DAILY_REQUESTS, platform)));
  }

  function canUseProviderMinute(platform, keyId, now) {
    const account = accountOf(platform, keyId);
    ctx.sync();
    return verdict(native.canUseProviderMinute(engine, account, instant(now), publishedCap(MINUTE_REQUESTS, platform)));
  }

  function canUseProviderTokens(platform, keyId, modelId, estimatedTokens, now) {
    const route = routeOf(platform, modelId, keyId);
    const wanted = tokensOf(estimatedTokens, 'estimatedTokens');
    ctx.sync();
    const limit = publishedCap(DAILY_TOKENS, platform);
    return verdict(native.canUseProviderTokens(engine, route, wanted, instant(now), limit));
  }

  // Leases and records

  function acquireLease(platform, modelId, keyId, tokens, now) {
    const route = routeOf(platform, modelId, keyId);
    const held = tokensOf(tokens, 'tokens');
    ctx.sync();
    return native.acquireLease(engine, route, held, instant(now));
  }

  function releaseLease(leaseId) {
    ctx.sync();
    if (typeof leaseId === 'number') native.releaseLease(engine, leaseId);
    else if (leaseId !== undefined && leaseId !== null) requireNumber(leaseId, 'leaseId');
  }

  function resetLeases() {
    ctx.sync();
    rate.resetLeases();
  }

  function recordRequest(platform, modelId, keyId) {
    const route = routeOf(platform, modelId, keyId);
    ctx.sync();
    verdict(native.recordRequest(engine, route, clock()));
  }

  function recordTokens(platform, modelId, keyId, tokens) {
    const route = routeOf(platform, modelId, keyId);
    const used = tokensOf(tokens, 'tokens');
    ctx.sync();
    verdict(native.recordTokens(engine, route, used, clock()));
  }

  // Cooldowns

  function setCooldown(platform, modelId, keyId, durationMs = MINUTE, source = 'heuristic') {
    const route = routeOf(platform, modelId, keyId);
    let duration = requireNumber(durationMs, 'durationMs');
    requireString(source, 'source');
    if (!recorded) {
      if (!COOLDOWN_SOURCES.includes(source)) {
        throw invalidArgument(`source must be one of ${COOLDOWN_SOURCES.join(', ')}`);
      }
      if (Number.isNaN(duration) || duration < 0) duration = clamped('durationMs', 0);
    }
    ctx.sync();
    rate.setCooldown(route, duration, source, clock());
    ctx.drain();
  }

  function isOnCooldown(platform, modelId, keyId) {
    const route = routeOf(platform, modelId, keyId);
    ctx.sync();
    return verdict(native.isOnCooldown(engine, route, clock()));
  }

  function getActiveCooldownsForKeys(keyIds, now) {
    if (!Array.isArray(keyIds)) throw invalidArgument(`keyIds must be an array, not ${describe(keyIds)}`);
    const keys = [...new Set(keyIds.filter((keyId) => Number.isInteger(keyId)))];
    ctx.sync();
    const at = instant(now);
    const found = new Map();
    for (const { platform, modelId, keyId, expiresAtMs } of rate.activeCooldowns(keys, at)) {
      if (!found.has(keyId)) found.set(keyId, []);
      found.get(keyId).push({ platform, modelId, keyId, expiresAtMs, remainingMs: expiresAtMs - at });
    }
    ctx.drain();
    return found;
  }

  function clearCooldownsForKey(keyId) {
    ctx.sync();
    requireNumber(keyId, 'keyId');
    if (!Number.isInteger(keyId)) return 0;
    const cleared = rate.clearCooldownsForKey(keyId);
    ctx.drain();
    return cleared;
  }

  function clearCooldownEarly(platform, modelId, keyId) {
    const route = routeOf(platform, modelId, keyId);
    ctx.sync();
    rate.clearCooldownEarly(route);
    ctx.drain();
  }

  function cleanupExpiredCooldowns(now) {
    ctx.sync();
    const deleted = rate.cleanupExpiredCooldowns(instant(now));
    ctx.drain();
    return deleted;
  }

  function getProbeableCooldowns(now) {
    ctx.sync();
    const found = rate.probeableCooldowns(instant(now));
    ctx.drain();
    return found.map(({ platform, modelId, keyId, expiresAtMs, setAtMs }) => ({
      platform,
      modelId,
      keyId,
      expiresAtMs,
      setAtMs: setAtMs ?? null,
    }));
  }

  function getSoonestCooldownExpiry(now) {
    ctx.sync();
    const soonest = rate.soonestCooldownExpiry(instant(now));
    ctx.drain();
    return soonest;
  }

  function getNextCooldownDuration(platform, modelId, keyId) {
    const route = routeOf(platform, modelId, keyId);
    ctx.sync();
    return rate.nextCooldownDuration(route, clock());
  }

  function recentHitCount(platform, modelId, keyId, now, windowMs = HOUR) {
    const route = routeOf(platform, modelId, keyId);
    requireNumber(windowMs, 'windowMs');
    ctx.sync();
    return rate.recentHitCount(route, instant(now), windowMs);
  }

  function getCooldownDecisionForLimit(platform, modelId, keyId, limits, retryAfterMs, options) {
    const route = routeOf(platform, modelId, keyId);
    requireLimits(limits);
    const rpd = limitOf(limits, 'rpd');
    const tpd = limitOf(limits, 'tpd');
    const asked = numberOrNone(retryAfterMs, 'retryAfterMs');
    const quotaSignal = quotaSignalOf(options);
    ctx.sync();
    const decision = rate.cooldownDecision(route, rpd, tpd, asked, quotaSignal, clock());
    ctx.drain();
    return decision;
  }

  function quotaSignalOf(options) {
    if (options === undefined || options === null) return true;
    const { quotaSignal = true } = requireObject(options, 'options');
    return Boolean(quotaSignal);
  }

  const getCooldownDurationForLimit = (...args) => getCooldownDecisionForLimit(...args).durationMs;

  function cooldownDecisionForError(route, error) {
    requireObject(route, 'route');
    const handle = routeOf(route.platform, route.modelId, route.keyId);
    const rpd = limitOf({ rpd: route.rpdLimit }, 'rpd');
    const tpd = limitOf({ tpd: route.tpdLimit }, 'tpd');
    const { status, message, retryAfterMs } = failureOf(error);
    ctx.sync();
    const decision = rate.cooldownDecisionForError(handle, rpd, tpd, status, message, retryAfterMs, clock());
    ctx.drain();
    return decision;
  }

  function isLocalEndpointKey(keyId) {
    requireNumber(keyId, 'keyId');
    ctx.sync();
    return rate.isLocalEndpointKey(keyId);
  }

  function resetKeyLocalityCache() {
    ctx.sync();
    rate.resetKeyLocality();
  }

  // Window snapshot

  function modelWindowUsedFraction(model, limits, now) {
    requireObject(model, 'model');
    const platform = requireString(model.platform, 'model.platform');
    const modelId = requireString(model.modelId, 'model.modelId');
    const keyId = model.keyId ?? null;
    if (keyId !== null) requireNumber(keyId, 'model.keyId');
    requireLimits(limits);
    const [rpm, rpd, tpm, tpd] = ['rpm', 'rpd', 'tpm', 'tpd'].map((name) => limitOf(limits, name));
    ctx.sync();
    const fraction = rate.windowUsedFraction(platform, modelId, keyId, rpm, rpd, tpm, tpd, instant(now));
    ctx.drain();
    return fraction;
  }

  function invalidateWindowUsage() {
    ctx.sync();
    rate.invalidateWindowUsage();
  }

  // Learning

  function learnLimitFromError(modelDbId, error) {
    requireNumber(modelDbId, 'modelDbId');
    const { message } = failureOf(error);
    ctx.sync();
    const learned = rate.learnLimit(modelDbId, message);
    ctx.drain();
    return learned;
  }

  ctx.onReset(() => rate.reset());
  ctx.onInspect(() => rate.inspect());

  return {
    rate,
    shared: {
      routeOf,
      requireLimits,
      limitOf,
      tokensOf,
      instant,
      publishedCap,
      getKeyConcurrencyLimit,
      CAP: { dailyRequests: DAILY_REQUESTS, minuteRequests: MINUTE_REQUESTS, dailyTokens: DAILY_TOKENS },
    },
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
      setCooldown,
      isOnCooldown,
      getActiveCooldownsForKeys,
      clearCooldownsForKey,
      clearCooldownEarly,
      cleanupExpiredCooldowns,
      getProbeableCooldowns,
      getSoonestCooldownExpiry,
      getNextCooldownDuration,
      recentHitCount,
      getCooldownDecisionForLimit,
      getCooldownDurationForLimit,
      cooldownDecisionForError,
      isLocalEndpointKey,
      resetKeyLocalityCache,
      isLoopbackOrPrivateUrl,
      parseProviderLimit: (message) => parseProviderLimit(message, recorded),
      learnLimitFromError,
      modelWindowUsedFraction,
      invalidateWindowUsage,
    },
  };
}

/** Status, text and wait of whatever a router caught: an Error, a plain object, a text, or nothing. */
function failureOf(error) {
  if (typeof error === 'string') return { status: Number.NaN, message: error, retryAfterMs: Number.NaN };
  const { status, message, retryAfterMs } = error ?? {};
  const number = (value) => (typeof value === 'number' ? value : Number.NaN);
  return {
    status: number(status),
    message: typeof message === 'string' ? message : '',
    retryAfterMs: number(retryAfterMs),
  };
}

function isLoopbackOrPrivateUrl(url) {
  // A key without an endpoint has none that is local.
  if (url === undefined || url === null) return false;
  return binding.isLoopbackOrPrivateUrl(requireString(url, 'url'));
}

function parseProviderLimit(message, recorded) {
  if (message === undefined || message === null) return null;
  return binding.parseProviderLimit(requireString(message, 'message'), recorded);
}

module.exports = { createRateLimit };
