'use strict';

// What the rate-limit functions are called with: routes become handles, limits numbers, variables caps. Values are checked
// here and nowhere else.

const { binding } = require('./native.js');
const { invalidArgument } = require('./errors.js');
const { describe, numberOrNone, requireNumber, requireString } = require('./args.js');
const { createRoutes } = require('./routes.js');

const CAPS = ['PROVIDER_DAILY_REQUEST_CAP_', 'PROVIDER_MINUTE_REQUEST_CAP_', 'PROVIDER_DAILY_TOKEN_CAP_'];
const CONCURRENCY = 'MAX_CONCURRENT_REQUESTS_PER_KEY';

/** Account-wide caps, by their number in the native layer. */
const CAP = { dailyRequests: 0, minuteRequests: 1, dailyTokens: 2 };

function createRateInputs(ctx, rate) {
  const { recorded } = ctx;
  const native = binding;
  const routes = createRoutes(rate);

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

  const clock = ctx.now;

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

  return {
    clamped,
    limitOf,
    requireLimits,
    tokensOf,
    instant,
    clock,
    routeOf,
    accountOf,
    holdRoutes: routes.hold,
    letGoOfRoutes: routes.letGo,
    publishedCap,
    getKeyConcurrencyLimit,
  };
}

module.exports = { createRateInputs, CAP };
