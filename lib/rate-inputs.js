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
  const routes = createRoutes(rate);

  /** Numbers that make no sense are clamped once the recorded behaviour is off, and told once. */
  let warnedOfNumber = false;
  function clamped(name, to) {
    if (!warnedOfNumber) ctx.warn('quota:number', `${name} makes no sense as a number: counted as ${to}`);
    warnedOfNumber = true;
    return to;
  }

  /** A limit as a number; NaN = none. */
  function limitOf(value, name) {
    if (typeof value === 'number' && value >= 0) return value;
    const limit = numberOrNone(value, name);
    return recorded || value === null || value === undefined ? limit : clamped(name, 0);
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

  function requireRoute(platform, modelId, keyId) {
    requireString(platform, 'platform');
    requireString(modelId, 'modelId');
    requireNumber(keyId, 'keyId');
  }

  function requireAccount(platform, keyId) {
    requireString(platform, 'platform');
    requireNumber(keyId, 'keyId');
  }

  /** What is remembered of a platform: the names of its variables, their last texts, and what those meant. */
  const platforms = new Map();

  function ofPlatform(platform) {
    let known = platforms.get(platform);
    if (known === undefined) {
      if (platforms.size > 10_000) platforms.clear();
      const upper = platform.toUpperCase();
      known = {
        names: CAPS.map((prefix) => `${prefix}${upper}`),
        texts: [null, null, null],
        caps: [Number.NaN, Number.NaN, Number.NaN],
        concurrencyName: `${CONCURRENCY}_${upper}`,
        concurrencyTexts: [null, null],
        concurrency: null,
      };
      platforms.set(platform, known);
    }
    return known;
  }

  function envText(env, name) {
    const value = env[name];
    if (typeof value === 'string' || value === undefined) return value;
    return value === null ? undefined : String(value);
  }

  // Variables are read at each call; what their texts mean is remembered.

  function capOf(known, cap, platform, env) {
    const text = envText(env, known.names[cap]);
    if (text !== known.texts[cap]) {
      known.caps[cap] = binding.publishedCap(cap, platform, text) ?? Number.NaN;
      known.texts[cap] = text;
    }
    return known.caps[cap];
  }

  function concurrencyOf(known, env) {
    const specific = envText(env, known.concurrencyName);
    const general = envText(env, CONCURRENCY);
    const texts = known.concurrencyTexts;
    if (specific !== texts[0] || general !== texts[1]) {
      known.concurrency = binding.keyConcurrencyLimit(specific, general);
      known.concurrencyTexts = [specific, general];
    }
    return known.concurrency;
  }

  /** A platform's cap; NaN = none. */
  function publishedCap(cap, platform) {
    return capOf(ofPlatform(platform), cap, platform, ctx.env());
  }

  function getKeyConcurrencyLimit(platform) {
    requireString(platform, 'platform');
    ctx.assertOpen();
    return concurrencyOf(ofPlatform(platform), ctx.env());
  }

  /** Concurrency per key, and caps of requests per day, per minute and of tokens per day; NaN = none. */
  function platformLimits(platform, numbers, at) {
    const known = ofPlatform(platform);
    const env = ctx.env();
    numbers[at] = concurrencyOf(known, env) ?? Number.NaN;
    numbers[at + 1] = capOf(known, CAP.dailyRequests, platform, env);
    numbers[at + 2] = capOf(known, CAP.minuteRequests, platform, env);
    numbers[at + 3] = capOf(known, CAP.dailyTokens, platform, env);
  }

  return {
    clamped,
    limitOf,
    requireLimits,
    tokensOf,
    instant,
    clock,
    requireRoute,
    requireAccount,
    routeOf: routes.route,
    accountOf: routes.account,
    holdRoutes: routes.hold,
    letGoOfRoutes: routes.letGo,
    publishedCap,
    platformLimits,
    getKeyConcurrencyLimit,
  };
}

module.exports = { createRateInputs, CAP };
