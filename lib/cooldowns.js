'use strict';

// Cooldowns, and what is learned from errors.

const { binding, hot } = require('./native.js');
const { invalidArgument } = require('./errors.js');
const { describe, numberOrNone, requireNumber, requireObject, requireString } = require('./args.js');

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const SOURCES = ['heuristic', 'authoritative', 'credit', 'tier'];

function createCooldowns(ctx, { rate, inputs, verdict }) {
  const { recorded } = ctx;
  const engine = rate.number;
  // Handles are named last, see ratelimit.js.
  const { clamped, limitOf, requireLimits, instant, clock, requireRoute, routeOf } = inputs;

  function setCooldown(platform, modelId, keyId, durationMs = MINUTE, source = 'heuristic') {
    requireRoute(platform, modelId, keyId);
    let duration = requireNumber(durationMs, 'durationMs');
    requireString(source, 'source');
    if (!recorded) {
      if (!SOURCES.includes(source)) {
        throw invalidArgument(`source must be one of ${SOURCES.join(', ')}`);
      }
      if (Number.isNaN(duration) || duration < 0) duration = clamped('durationMs', 0);
    }
    ctx.sync();
    const now = clock();
    rate.setCooldown(routeOf(platform, modelId, keyId), duration, source, now);
    ctx.drain();
  }

  function isOnCooldown(platform, modelId, keyId) {
    requireRoute(platform, modelId, keyId);
    ctx.sync();
    const now = clock();
    return verdict(hot.isOnCooldown(engine, routeOf(platform, modelId, keyId), now));
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
    requireRoute(platform, modelId, keyId);
    ctx.sync();
    rate.clearCooldownEarly(routeOf(platform, modelId, keyId));
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
    requireRoute(platform, modelId, keyId);
    ctx.sync();
    const now = clock();
    return rate.nextCooldownDuration(routeOf(platform, modelId, keyId), now);
  }

  function recentHitCount(platform, modelId, keyId, now, windowMs = HOUR) {
    requireRoute(platform, modelId, keyId);
    requireNumber(windowMs, 'windowMs');
    ctx.sync();
    const at = instant(now);
    return rate.recentHitCount(routeOf(platform, modelId, keyId), at, windowMs);
  }

  function getCooldownDecisionForLimit(platform, modelId, keyId, limits, retryAfterMs, options) {
    requireRoute(platform, modelId, keyId);
    requireLimits(limits);
    const rpd = limitOf(limits.rpd, 'limits.rpd');
    const tpd = limitOf(limits.tpd, 'limits.tpd');
    const asked = numberOrNone(retryAfterMs, 'retryAfterMs');
    const quotaSignal = quotaSignalOf(options);
    ctx.sync();
    const now = clock();
    const decision = rate.cooldownDecision(routeOf(platform, modelId, keyId), rpd, tpd, asked, quotaSignal, now);
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
    const { platform, modelId, keyId } = route;
    requireRoute(platform, modelId, keyId);
    const rpd = limitOf(route.rpdLimit, 'limits.rpd');
    const tpd = limitOf(route.tpdLimit, 'limits.tpd');
    const { status, message, retryAfterMs } = failureOf(error);
    ctx.sync();
    const now = clock();
    const handle = routeOf(platform, modelId, keyId);
    const decision = rate.cooldownDecisionForError(handle, rpd, tpd, status, message, retryAfterMs, now);
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

  function learnLimitFromError(modelDbId, error) {
    requireNumber(modelDbId, 'modelDbId');
    const { message } = failureOf(error);
    ctx.sync();
    const learned = rate.learnLimit(modelDbId, message);
    ctx.drain();
    return learned;
  }

  return {
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

module.exports = { createCooldowns };
