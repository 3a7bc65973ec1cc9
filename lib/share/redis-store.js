'use strict';

// Consumption counted in Redis, shared with every replica that counts there; pools and allocations stay in the database.

const { binding } = require('../native.js');
const { requireNumber, requireObject, requireString } = require('../args.js');
const { answerOf } = require('../redis/client.js');
const { dimensionKeyToString } = require('./rules.js');
const { emptySnapshot, toSnapshot } = require('./store.js');

/** Dimensions whose consumers are remembered. */
const MAX_DIMENSIONS = 10_000;

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./state.js').createState>} state
 * @param {ReturnType<import('../redis/client.js').createRedisClients>} clients
 */
function createRedisStores(ctx, { call }, clients) {
  function requireCounter(apiKeyId, dim) {
    ctx.assertOpen();
    requireString(apiKeyId, 'apiKeyId');
    requireObject(dim, 'dim');
    requireString(dim.window, 'dim.window');
    return [apiKeyId, dimensionKeyToString(dim), dim.window];
  }

  class RedisQuotaStore {
    #client;
    /** Keys that spent through this store, by dimension: they count in its total after they left the pool, too. */
    #spenders = new Map();

    /** @param {string} [url] default: the option `redis.url` */
    constructor(url) {
      this.#client = clients.client(url);
    }

    /** Resolves when the server answers. */
    async ready() {
      await answerOf(this.#client.ping());
    }

    async consume(apiKeyId, dim, cost) {
      const [key, dimension, window] = requireCounter(apiKeyId, dim);
      requireNumber(cost, 'cost');
      const [value] = await answerOf(this.#client.quotaConsume(key, dimension, window, cost, ctx.now()));
      this.#remember(dimension, key);
      return value;
    }

    async peek(apiKeyId, dim) {
      const names = requireCounter(apiKeyId, dim);
      const now = ctx.now();
      const pairs = await answerOf(this.#client.quotaPairs(names, now));
      return binding.slidingValue(pairs[0], pairs[1], dim.window, now);
    }

    /** The pool of the first argument is the one that counts, whatever pool `dim` names. */
    async poolConsumedTotal(poolId, dim) {
      const [, dimension, window] = requireCounter(poolId, { ...dim, poolId });
      const now = ctx.now();
      const names = this.#keysOf(poolId, [dimension]).flatMap((key) => [key, dimension, window]);
      return binding.slidingTotal(await answerOf(this.#client.quotaPairs(names, now)), window, now);
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
      const asked = dims
        .filter(({ window }) => binding.isWindow(window))
        .map(({ unit, window, limit }) => ({ unit, window, limit }));
      const dimensions = asked.map(({ unit, window }) => dimensionKeyToString({ poolId, unit, window }));
      const keys = this.#keysOf(poolId, dimensions);
      const names = asked.flatMap(({ window }, index) => keys.flatMap((key) => [key, dimensions[index], window]));
      const pairs = await answerOf(this.#client.quotaPairs(names, now));
      const enforcedView = ctx.options.usageView === 'enforced';
      const flat = call((native) => native.snapshotOfCounters(poolId, asked, enforcedView, now, keys, pairs));
      return flat === null ? emptySnapshot(poolId, now) : toSnapshot(poolId, asked, now, flat);
    }

    async clear(apiKeyId, dim) {
      const names = requireCounter(apiKeyId, dim);
      await answerOf(this.#client.quotaClear(...names, ctx.now()));
    }

    /** The keys of a pool, and those that spent here and left it. */
    #keysOf(poolId, dimensions) {
      const pool = call((native) => native.getPool(poolId));
      const keys = new Set((pool?.allocations ?? []).map(({ apiKeyId }) => apiKeyId));
      for (const dimension of dimensions) for (const key of this.#spenders.get(dimension) ?? []) keys.add(key);
      return [...keys];
    }

    #remember(dimension, key) {
      let keys = this.#spenders.get(dimension);
      if (keys === undefined) {
        if (this.#spenders.size >= MAX_DIMENSIONS) this.#spenders.clear();
        this.#spenders.set(dimension, (keys = new Set()));
      }
      keys.add(key);
    }
  }

  let stores = new Map();

  function getRedisQuotaStore(url = clients.url) {
    ctx.assertOpen();
    requireString(url, 'url');
    let store = stores.get(url);
    if (store === undefined) stores.set(url, (store = new RedisQuotaStore(url)));
    return store;
  }

  function resetRedisQuotaStore() {
    stores = new Map();
  }

  ctx.onReset(resetRedisQuotaStore);

  return {
    /** The driver of the store factory: rejects when the server cannot be reached. */
    async open(url) {
      const store = getRedisQuotaStore(url);
      await store.ready();
      return store;
    },
    functions: { RedisQuotaStore, getRedisQuotaStore, resetRedisQuotaStore },
  };
}

module.exports = { createRedisStores };
