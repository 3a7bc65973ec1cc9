'use strict';

// What providers say about their own quotas: reading responses, recording, the panel, and what a key has left.

const { AsyncLocalStorage } = require('node:async_hooks');
const { randomUUID } = require('node:crypto');

const { requireFunction, requireNumber, requireObject, requireString, numberOrNone } = require('./args.js');
const { invalidArgument } = require('./errors.js');
const { binding } = require('./native.js');

/** An optional text: absent, `undefined` and null give null. */
const optionalString = (value, name) => (value === undefined || value === null ? null : requireString(value, name));

/** @param {number} number what is not finite says nothing */
const orNull = (number) => (Number.isFinite(number) ? number : null);

const contextFields = ['platform', 'keyId', 'providerAccountId', 'modelId', 'quotaPoolKey', 'endpoint', 'origin'];

/** The headers to ask a response for; a handful of platforms, each asked for all the time. */
const headerNames = new Map();
function headerNamesOf(platform) {
  let names = headerNames.get(platform);
  if (names === undefined) {
    names = binding.quotaHeaderNames(platform);
    if (headerNames.size < 1000) headerNames.set(platform, names);
  }
  return names;
}

/** `2096-02-03 04:05:06.789`: an instant as SQLite's date functions write it. Throws a RangeError where there is none. */
const sqlInstant = (ms) => new Date(ms).toISOString().replace('T', ' ').replace('Z', '');

module.exports = function createProviderQuota(ctx) {
  const { recorded } = ctx;
  const engine = new binding.ProviderQuota(ctx.link, recorded);
  const storage = new AsyncLocalStorage();
  ctx.onReset(() => engine.reset());

  function inferQuotaPoolKey(platform, modelId) {
    return binding.inferQuotaPoolKey(
      requireString(platform, 'platform'),
      optionalString(modelId, 'modelId') ?? undefined,
    );
  }

  function isSharedPool(platform) {
    return binding.isSharedPool(requireString(platform, 'platform'));
  }

  function runWithQuotaObservationContext(context, fn) {
    return storage.run(requireObject(context, 'context'), requireFunction(fn, 'fn'));
  }

  function getQuotaObservationContext() {
    return storage.getStore();
  }

  /** The fields that say whose quota is meant: explicit ones win over the context's, one by one. Null without a platform. */
  function subject(explicit) {
    const given = explicit === undefined || explicit === null ? {} : requireObject(explicit, 'options');
    const around = storage.getStore() ?? {};
    const merged = {};
    for (const name of contextFields) {
      const value = given[name] ?? around[name] ?? null;
      if (name !== 'keyId' && value !== null) requireString(value, name);
      merged[name] = value;
    }
    if (!merged.platform) return null;
    const keyId = requireNumber(merged.keyId ?? 0, 'keyId');
    return {
      platform: merged.platform,
      keyId,
      providerAccountId: merged.providerAccountId,
      modelId: merged.modelId,
      quotaPoolKey: merged.quotaPoolKey ?? inferQuotaPoolKey(merged.platform, merged.modelId),
      endpoint: merged.endpoint,
    };
  }

  function parseQuotaObservationsFromResponse(response, opts) {
    const { status, headers } = requireObject(response, 'response');
    const whose = subject(opts);
    if (whose === null) return [];
    const names = headerNamesOf(whose.platform);
    const get = typeof headers?.get === 'function' ? (name) => headers.get(name) : () => null;
    const values = names.map((name) => {
      const value = get(name);
      return typeof value === 'string' ? value : undefined;
    });
    // As recorded, `retry-after` is whatever the JavaScript engine takes for a date.
    const retryAfter = values[names.indexOf('retry-after')];
    const jsDate = recorded && retryAfter !== undefined ? Date.parse(retryAfter.trim()) : Number.NaN;
    const statusCode = typeof status === 'number' ? status : Number.NaN;
    const readings = engine.read(whose.platform, statusCode, values, jsDate, ctx.now());
    if (readings === null) throw new RangeError('Invalid time value');
    return readings.map((reading) => ({
      ...whose,
      metric: reading.metric,
      limit: orNull(reading.limit),
      remaining: orNull(reading.remaining),
      resetAt: reading.resetAt ?? null,
      ...(reading.hasWait && { retryAfterMs: orNull(reading.retryAfterMs) }),
      resetStrategy: reading.resetStrategy,
      source: reading.source,
      confidence: reading.confidence,
      ...(typeof reading.notes === 'string' && { notes: reading.notes }),
    }));
  }

  /** When it was seen: the time given if it is one, else now. */
  function observationTime(observedAt) {
    const given = observedAt ?? null;
    if (given !== null && typeof given !== 'string' && !(given instanceof Date)) {
      throw invalidArgument('observedAt must be an ISO instant');
    }
    const now = ctx.now();
    if (recorded) return sqlInstant(given ?? now);
    const candidates = [given === null ? Number.NaN : new Date(given).getTime(), now];
    return sqlInstant(candidates.find((ms) => !Number.isNaN(new Date(ms).getTime())) ?? 0);
  }

  function recordQuotaObservation(input) {
    const whose = subject(input);
    if (whose === null) return null;
    const observation = {
      statusCode: orNull(numberOrNone(input?.statusCode, 'statusCode')),
      limit: orNull(numberOrNone(input?.limit, 'limit')),
      remaining: orNull(numberOrNone(input?.remaining, 'remaining')),
      resetAt: optionalString(input?.resetAt, 'resetAt'),
      retryAfterMs: orNull(numberOrNone(input?.retryAfterMs, 'retryAfterMs')),
      resetStrategy: optionalString(input?.resetStrategy, 'resetStrategy') ?? 'unknown',
      source: optionalString(input?.source, 'source') ?? 'probe',
      rawJson: optionalString(input?.rawJson, 'rawJson'),
    };
    const metric = optionalString(input?.metric, 'metric') ?? 'requests';
    const observedAt = observationTime(input?.observedAt);
    const id = randomUUID();
    ctx.sync();
    const { outcome, confidence, notes } = engine.record({
      id,
      ...defined(whose),
      metric,
      statusCode: observation.statusCode ?? Number.NaN,
      limit: observation.limit ?? Number.NaN,
      remaining: observation.remaining ?? Number.NaN,
      resetAt: observation.resetAt ?? undefined,
      retryAfterMs: observation.retryAfterMs ?? Number.NaN,
      resetStrategy: observation.resetStrategy,
      source: observation.source,
      confidence: numberOrNone(input?.confidence, 'confidence'),
      notes: optionalString(input?.notes, 'notes') ?? undefined,
      rawJson: observation.rawJson ?? undefined,
      observedAt,
    });
    ctx.drain();
    if (outcome === 'closed') refuseClosed();
    if (outcome !== 'written') return null;
    return {
      id,
      ...whose,
      metric,
      ...observation,
      confidence,
      notes: notes ?? null,
      observedAt,
      updatedAt: observedAt,
      createdAt: observedAt,
    };
  }

  function recordQuotaObservationsFromResponse(response, opts) {
    return parseQuotaObservationsFromResponse(response, opts)
      .map(recordQuotaObservation)
      .filter((observation) => observation !== null);
  }

  function getQuotaStateForKeys() {
    ctx.sync();
    const rows = engine.states(ctx.now());
    ctx.drain();
    if (rows === null) {
      refuseClosed();
      return [];
    }
    return rows.map((row) => ({
      platform: row.platform,
      keyId: row.keyId,
      keyLabel: row.keyLabel ?? null,
      quotaPoolKey: row.quotaPoolKey,
      metric: row.metric,
      limit: orNull(row.limit),
      remaining: orNull(row.remaining),
      resetAt: row.resetAt ?? null,
      resetStrategy: row.resetStrategy,
      source: row.source,
      confidence: row.confidence,
      notes: row.notes ?? null,
      observedAt: row.observedAt ?? null,
      updatedAt: row.updatedAt ?? null,
      // As recorded, the panel never showed the account.
      providerAccountId: recorded ? null : (row.providerAccountId ?? null),
      modelId: row.modelId ?? null,
      endpoint: row.endpoint ?? null,
      statusCode: orNull(row.statusCode),
      retryAfterMs: orNull(row.retryAfterMs),
      rawJson: row.rawJson ?? null,
      createdAt: row.createdAt ?? null,
    }));
  }

  function getKeyQuotaHeadroom(platform) {
    requireString(platform, 'platform');
    ctx.sync();
    const pairs = engine.headroom(platform, ctx.now());
    ctx.drain();
    const headroom = new Map();
    if (pairs === null) refuseClosed();
    else for (let at = 0; at < pairs.length; at += 2) headroom.set(pairs[at], pairs[at + 1]);
    return headroom;
  }

  function invalidateKeyQuotaHeadroom(platform) {
    engine.invalidate(optionalString(platform, 'platform') || undefined);
  }

  function orderKeysByRemainingQuota(platform, modelId, keyIds) {
    requireString(platform, 'platform');
    if (!Array.isArray(keyIds)) throw invalidArgument('keyIds must be an array of numbers');
    for (const keyId of keyIds) requireNumber(keyId, 'a key id');
    ctx.sync();
    const ordered = engine.orderKeys(platform, optionalString(modelId, 'modelId') ?? undefined, keyIds, ctx.now());
    ctx.drain();
    return ordered;
  }

  function headroomFactor(usedTokens, budgetTokens, opts) {
    return binding.headroomFactor(
      numberOrNone(usedTokens, 'usedTokens'),
      numberOrNone(budgetTokens, 'budgetTokens'),
      numberOrNone(opts?.rampStart, 'rampStart'),
      numberOrNone(opts?.floor, 'floor'),
    );
  }

  function rateWindowHeadroomFactor(usedFraction, opts) {
    return binding.rateWindowHeadroomFactor(
      numberOrNone(usedFraction, 'usedFraction'),
      numberOrNone(opts?.rampStart, 'rampStart'),
      numberOrNone(opts?.floor, 'floor'),
    );
  }

  /** As recorded, a closed handle throws what better-sqlite3 throws; a database that was never opened does not. */
  function refuseClosed() {
    if (recorded && ctx.isConnectionClosed()) throw new TypeError('The database connection is not open');
  }

  return {
    inferQuotaPoolKey,
    isSharedPool,
    runWithQuotaObservationContext,
    getQuotaObservationContext,
    parseQuotaObservationsFromResponse,
    recordQuotaObservation,
    recordQuotaObservationsFromResponse,
    getQuotaStateForKeys,
    getKeyQuotaHeadroom,
    invalidateKeyQuotaHeadroom,
    orderKeysByRemainingQuota,
    headroomFactor,
    rateWindowHeadroomFactor,
  };
};

/** The native side knows no null: absent is `undefined` there. */
function defined(fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value ?? undefined]));
}
