'use strict';

// Where consumption is counted: the built-in SQLite store, the host's own object, or the driver that settings name.

const { QuotaCoreError } = require('../errors.js');
const { requireNumber, requireObject, requireString } = require('../args.js');
const { dimensionKeyToString } = require('./rules.js');

const HOUR_MS = 3_600_000;
const DEFAULT_RETENTION_DAYS = 14;

/**
 * Writers take turns behind the code that called them, readers answer at once: among calls started together a `peek` sees
 * none of the writes, as in the recorded runs.
 */
const writerTurn = Promise.resolve();

/** Unknown pool, no dimensions: an empty list. */
function emptySnapshot(poolId, now) {
  return { poolId, generatedAt: new Date(now).toISOString(), dimensions: [] };
}

/** The flat native snapshot as objects. */
function toSnapshot(poolId, asked, now, flat) {
  const { keys, indexes, limits, totals, consumed, fairShare } = flat;
  const dimensions = indexes.map((index, row) => {
    const { unit, window } = asked[index];
    const start = row * keys.length;
    const perKey = new Array(keys.length);
    for (let at = 0; at < keys.length; at += 1) {
      const used = consumed[start + at];
      const share = fairShare[start + at];
      perKey[at] = {
        apiKeyId: keys[at],
        consumed: used,
        fairShare: share,
        deficit: used - share,
        borrowing: used > share,
      };
    }
    return { unit, window, limit: limits[row], consumedTotal: totals[row], perKey };
  });
  const burnRate =
    flat.tokensPerSecond === undefined
      ? undefined
      : { tokensPerSecond: flat.tokensPerSecond, timeToExhaustionMs: flat.timeToExhaustionMs ?? null };
  return { poolId, generatedAt: new Date(now).toISOString(), dimensions, burnRate };
}

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./state.js').createState>} state
 */
function createStores(ctx, { call, recorded }) {
  let collectedAt = Number.NEGATIVE_INFINITY;
  ctx.onReset(() => {
    collectedAt = Number.NEGATIVE_INFINITY;
  });

  function retentionDays() {
    const days = Number(ctx.env().QUOTA_CONSUMPTION_RETENTION_DAYS);
    return days > 0 ? days : DEFAULT_RETENTION_DAYS;
  }

  function collectQuotaGarbage(now = ctx.now()) {
    requireNumber(now, 'now');
    return call((native) => native.collect(retentionDays(), now));
  }

  /** Old buckets go in passing, at most once an hour; the originals never collected any. */
  function collectInPassing(now) {
    if (recorded || now - collectedAt < HOUR_MS) return;
    collectedAt = now;
    try {
      collectQuotaGarbage(now);
    } catch (error) {
      ctx.warn('quota:garbage', `old counters stay: ${error.message}`);
    }
  }

  function requireDimension(apiKeyId, dim) {
    requireString(apiKeyId, 'apiKeyId');
    requireObject(dim, 'dim');
    return requireString(dim.window, 'dim.window');
  }

  class SqliteQuotaStore {
    async consume(apiKeyId, dim, cost) {
      const window = requireDimension(apiKeyId, dim);
      requireNumber(cost, 'cost');
      await writerTurn;
      const now = ctx.now();
      const value = call((native) => native.consume(apiKeyId, dimensionKeyToString(dim), window, cost, now));
      collectInPassing(now);
      return value;
    }

    async peek(apiKeyId, dim) {
      const window = requireDimension(apiKeyId, dim);
      return call((native) => native.peek(apiKeyId, dimensionKeyToString(dim), window, ctx.now()));
    }

    /** The pool of the dimension is the one that counts; the first argument is the interface's. */
    async poolConsumedTotal(poolId, dim) {
      const window = requireDimension(poolId, dim);
      const key = dimensionKeyToString({ ...dim, poolId });
      return call((native) => native.dimensionTotal(key, window, ctx.now()));
    }

    async poolUsage(poolId) {
      requireString(poolId, 'poolId');
      const dimensions = call((native) => native.poolDimensions(poolId));
      if (dimensions.length === 0) return emptySnapshot(poolId, ctx.now());
      return this.poolUsageWithDimensions(poolId, dimensions);
    }

    async poolUsageWithDimensions(poolId, dims) {
      requireString(poolId, 'poolId');
      const now = ctx.now();
      const asked = dims.map(({ unit, window, limit }) => ({ unit, window, limit }));
      const enforcedView = ctx.options.usageView === 'enforced';
      const flat = call((native) => native.snapshot(poolId, asked, enforcedView, now));
      return flat === null ? emptySnapshot(poolId, now) : toSnapshot(poolId, asked, now, flat);
    }

    async clear(apiKeyId, dim) {
      const window = requireDimension(apiKeyId, dim);
      await writerTurn;
      call((native) => native.clear(apiKeyId, dimensionKeyToString(dim), window, ctx.now()));
    }
  }

  let sqlite = null;

  function getSqliteQuotaStore() {
    sqlite ??= new SqliteQuotaStore();
    return sqlite;
  }

  function resetSqliteQuotaStore() {
    sqlite = null;
  }

  return {
    collectInPassing,
    functions: { SqliteQuotaStore, getSqliteQuotaStore, resetSqliteQuotaStore, collectQuotaGarbage },
  };
}

/** A setting under its dotted name or nested. */
function setting(settings, name) {
  return settings?.[`quotaStore.${name}`] ?? settings?.quotaStore?.[name];
}

/**
 * Which store counts.
 * @param {object} ctx see lib/context.js
 * @param {() => object} getSqliteQuotaStore
 * @param {(url: string) => Promise<object>} openRedis rejects when the server cannot be reached
 */
function createStoreFactory(ctx, getSqliteQuotaStore, openRedis) {
  let store = null;
  let opening = null;

  function warn(message) {
    ctx.warn('quota:factory', `${message}: counting in SQLite`);
  }

  async function open() {
    let settings;
    try {
      settings = await ctx.options.settings?.();
    } catch (error) {
      warn(`the settings cannot be read (${error?.message ?? error})`);
    }
    const env = ctx.env();
    const driver = setting(settings, 'driver') || env.QUOTA_STORE_DRIVER || 'sqlite';
    if (driver === 'sqlite') return getSqliteQuotaStore();
    if (driver !== 'redis') {
      warn(`there is no quota store driver "${driver}"`);
      return getSqliteQuotaStore();
    }
    const url = setting(settings, 'redisUrl') || env.QUOTA_STORE_REDIS_URL || ctx.options.redis?.url;
    if (!url) {
      warn('the redis driver has no URL');
      return getSqliteQuotaStore();
    }
    try {
      return await openRedis(url);
    } catch {
      // The reason may quote the URL, and with it the password.
      warn('the redis server cannot be reached');
      return getSqliteQuotaStore();
    }
  }

  async function getQuotaStore() {
    if (ctx.options.quotaStore) return ctx.options.quotaStore;
    if (store !== null) return store;
    if (opening === null) {
      const attempt = open().then((opened) => {
        if (opening === attempt) {
          store = opened;
          opening = null;
        }
        return opened;
      });
      opening = attempt;
    }
    return opening;
  }

  function getQuotaStoreSync() {
    const ready = ctx.options.quotaStore ?? store;
    if (ready) return ready;
    throw new QuotaCoreError('ERR_QUOTA_STORE_NOT_READY', 'no quota store yet: await getQuotaStore() once first');
  }

  function resetQuotaStoreSingleton() {
    store = null;
    opening = null;
  }

  /** The store without waiting, null where finding it needs to: settings to read, a server to reach. */
  function storeAtOnce() {
    const ready = ctx.options.quotaStore ?? store;
    if (ready) return ready;
    if (ctx.options.settings || (ctx.env().QUOTA_STORE_DRIVER || 'sqlite') !== 'sqlite') return null;
    return getSqliteQuotaStore();
  }

  ctx.onReset(resetQuotaStoreSingleton);
  return { storeAtOnce, functions: { getQuotaStore, getQuotaStoreSync, resetQuotaStoreSingleton } };
}

module.exports = { createStores, createStoreFactory, emptySnapshot, toSnapshot };
