'use strict';

// Admission: requests become one flat array of numbers, so that a call costs the same whatever it holds.

const { binding, hot } = require('./native.js');
const { invalidArgument } = require('./errors.js');
const { describe, requireNumber, requireObject } = require('./args.js');

/** Numbers per request; the order is that of the native layer. */
const WIDTH = 12;
/** Account-wide limits per request, as the native layer gives them. */
const ACCOUNT_WIDTH = 4;
const MAX_REQUESTS = 65_535;
const INDEX_RANGE = 65_536;
const NO_OPTIONS = {};

/** As the rule book counts tokens: never a part of one, never below 0, never more than a number counts exactly. */
function wholeTokens(tokens) {
  return Math.min(Math.max(Math.ceil(tokens) || 0, 0), Number.MAX_SAFE_INTEGER);
}

function createAdmission(ctx, { rate, inputs }) {
  const engine = rate.number;
  const { requireRoute, routeOf, requireLimits, limitOf, tokensOf, instant, platformLimits } = inputs;
  const { holdRoutes, letGoOfRoutes } = inputs;
  /** The array between calls. It is taken out while it is filled: a getter of a request may call back. */
  let spare = null;

  /** Writes a request; its platform. `before` is the platform of the request before. */
  function write(request, numbers, at, before, replicas, names) {
    if (request === null || typeof request !== 'object') {
      throw invalidArgument(
        `a request must be an object { platform, modelId, keyId, limits, … }, not ${describe(request)}`,
      );
    }
    const { platform, modelId, keyId, limits, estimatedTokens, account } = request;
    requireRoute(platform, modelId, keyId);
    names?.push({ platform, modelId, keyId });
    numbers[at] = routeOf(platform, modelId, keyId);
    numbers[at + 1] = estimatedTokens === undefined ? 0 : tokensOf(estimatedTokens, 'estimatedTokens');
    requireLimits(limits);
    numbers[at + 2] = limitOf(limits.rpm, 'limits.rpm');
    numbers[at + 3] = limitOf(limits.rpd, 'limits.rpd');
    numbers[at + 4] = limitOf(limits.tpm, 'limits.tpm');
    numbers[at + 5] = limitOf(limits.tpd, 'limits.tpd');
    if (platform === before) {
      // Reading the environment costs more than a gate: neighbours of one platform share it.
      const last = at - WIDTH;
      numbers[at + 6] = numbers[last + 6];
      numbers[at + 7] = numbers[last + 7];
      numbers[at + 8] = numbers[last + 8];
      numbers[at + 9] = numbers[last + 9];
    } else {
      platformLimits(platform, numbers, at + 6);
    }
    numbers[at + 10] = account === false ? 0 : 1;
    numbers[at + 11] = replicas;
    return platform;
  }

  /**
   * The requests as numbers, in an array that goes back with `giveBack` once nobody reads it: while the engine does, a
   * function of the host that SQLite calls may come here.
   * @param {number} [replicas] among how many every limit is divided
   * @param {object[]} [names] gets the names of each: a getter may say something else when it is asked again
   */
  function flatten(requests, replicas = 1, names = undefined) {
    const list = Array.isArray(requests) ? requests : [requests];
    const count = list.length;
    // A proxy may say anything.
    if (!Number.isInteger(count) || count < 0) throw invalidArgument('the number of requests must be a whole number');
    if (count > MAX_REQUESTS) throw invalidArgument(`at most ${MAX_REQUESTS} requests fit into one call`);
    let numbers = spare;
    spare = null;
    if (numbers === null || numbers.length < count * WIDTH) numbers = new Float64Array(Math.max(16, count) * WIDTH);
    let platform = null;
    holdRoutes();
    try {
      for (let place = 0; place < count; place += 1) {
        platform = write(list[place], numbers, place * WIDTH, platform, replicas, names);
      }
    } finally {
      letGoOfRoutes();
    }
    return { numbers, count };
  }

  function giveBack(numbers) {
    spare = numbers;
  }

  const refusalOf = (index) => (found) => {
    const { axis, limit, used, inFlight, remaining } = found.gate;
    const refusal = { index, axis, limit, used, inFlight, remaining, retryAtMs: found.retryAtMs ?? null };
    if (found.source) refusal.source = found.source;
    if (found.never) refusal.never = true;
    return refusal;
  };

  /**
   * When a request would pass by itself: when its last axis does, null when one has no instant. At once without a refusal:
   * with leases in the file another process may have made room in between.
   */
  function latest(refusals, now) {
    if (refusals.length === 0) return now;
    let most = Number.NEGATIVE_INFINITY;
    for (const { retryAtMs } of refusals) {
      if (retryAtMs === null) return null;
      most = Math.max(most, retryAtMs);
    }
    return most;
  }

  /** When the first of several requests would pass by itself; `own` gives the refusals of each. */
  function earliest(count, own, now) {
    let first = null;
    for (let index = 0; index < count; index += 1) {
      const passes = latest(own(index), now);
      if (passes !== null && (first === null || passes < first)) first = passes;
    }
    return first;
  }

  function admit(requests, options = NO_OPTIONS) {
    return admitPart(requests, options, 1);
  }

  /** Admission to one of `replicas` equal parts of every limit. */
  function admitPart(requests, options, replicas) {
    const { dryRun = false, now } = requireObject(options, 'options');
    ctx.sync();
    const at = instant(now);
    const { numbers, count } = flatten(requests, replicas);
    const admitted = hot.admit(numbers, engine, count, at, dryRun ? 1 : 0);
    if (admitted >= 0) {
      giveBack(numbers);
      const index = admitted % INDEX_RANGE;
      return { admitted: true, index, leaseId: dryRun ? null : (admitted - index) / INDEX_RANGE };
    }
    const refusals = [];
    for (let index = 0; index < count; index += 1) {
      refusals.push(binding.explain(engine, numbers, index, at).refusals.map(refusalOf(index)));
    }
    giveBack(numbers);
    ctx.drain();
    return { admitted: false, refusals: refusals.flat(), retryAtMs: earliest(count, (index) => refusals[index], at) };
  }

  function explain(request, options = NO_OPTIONS) {
    const { now } = requireObject(options, 'options');
    if (Array.isArray(request)) throw invalidArgument('explain takes one request');
    ctx.sync();
    const at = instant(now);
    const { numbers } = flatten(request);
    const found = binding.explain(engine, numbers, 0, at);
    giveBack(numbers);
    ctx.drain();
    const refusals = found.refusals.map(refusalOf(0));
    return {
      admitted: refusals.length === 0,
      gates: found.gates,
      refusals,
      retryAtMs: refusals.length === 0 ? null : latest(refusals, at),
    };
  }

  function requireLease(leaseId) {
    requireNumber(leaseId, 'leaseId');
    return Number.isInteger(leaseId) && leaseId > 0 ? leaseId : 0;
  }

  /** What a lease was used for; tokens NaN: its estimate. */
  function usageOf(usage) {
    const { tokens, requests = 1 } = requireObject(usage, 'usage');
    if (!Number.isInteger(requests) || requests < 0 || requests > 1000) {
      throw invalidArgument('usage.requests must be an integer from 0 to 1000');
    }
    const used = tokens === undefined || tokens === null ? Number.NaN : tokensOf(tokens, 'usage.tokens');
    // A count that is not a number is a count of 0, not "unknown": it was stated.
    const stated = tokens !== undefined && tokens !== null && Number.isNaN(used) ? 0 : used;
    return { tokens: stated, requests };
  }

  function settle(leaseId, usage = NO_OPTIONS) {
    const lease = requireLease(leaseId);
    const { tokens, requests } = usageOf(usage);
    ctx.sync();
    const outcome = hot.settle(engine, lease, tokens, requests, instant());
    ctx.drain();
    return { settled: outcome > 0, expired: outcome === 2 };
  }

  function cancel(leaseId) {
    const lease = requireLease(leaseId);
    ctx.sync();
    return hot.cancel(engine, lease) === 1;
  }

  function rank(requests) {
    if (!Array.isArray(requests)) throw invalidArgument(`requests must be an array, not ${describe(requests)}`);
    ctx.sync();
    const at = instant();
    const { numbers, count } = flatten(requests);
    const ranking = binding.rank(engine, numbers, count, at);
    giveBack(numbers);
    ctx.drain();
    return ranking;
  }

  function metrics() {
    ctx.sync();
    return binding.metrics(engine);
  }

  /** The requests with all their limits, for an admission that is decided elsewhere; NaN = none. */
  function candidatesOf(requests) {
    const names = [];
    const { numbers, count } = flatten(requests, 1, names);
    const account = binding.accountLimits(engine, numbers, count);
    const candidates = Array.from({ length: count }, (_, index) => {
      const { platform, modelId, keyId } = names[index];
      const at = index * WIDTH;
      const of = index * ACCOUNT_WIDTH;
      return {
        platform,
        modelId,
        keyId,
        tokens: wholeTokens(numbers[at + 1]),
        limits: { rpm: numbers[at + 2], rpd: numbers[at + 3], tpm: numbers[at + 4], tpd: numbers[at + 5] },
        concurrency: numbers[at + 6],
        account: { rpm: account[of], rpd: account[of + 1], tpd: account[of + 2], multiplier: account[of + 3] },
      };
    });
    giveBack(numbers);
    return candidates;
  }

  return {
    api: { admit, explain, settle, cancel, rank, metrics },
    local: { admitPart, cancel, candidatesOf, earliest, settle, usageOf },
  };
}

module.exports = { createAdmission, wholeTokens };
