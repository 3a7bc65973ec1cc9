'use strict';

// Quota sharing: one provider account among several keys. The parts, put together.

const { createAccess } = require('./access.js');
const { createDb } = require('./db.js');
const { createEnforce } = require('./enforce.js');
const { createPlans } = require('./plans.js');
const { createRecord } = require('./record.js');
const { createRedisStores } = require('./redis-store.js');
const { createRules } = require('./rules.js');
const { createScheduling } = require('./scheduling.js');
const { createState } = require('./state.js');
const { createStoreFactory, createStores } = require('./store.js');

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('../redis/client.js').createRedisClients>} clients
 * @returns the functions of the public interface
 */
function createShare(ctx, clients) {
  const state = createState(ctx);
  const { saturationFor, functions: scheduling } = createScheduling(ctx);
  const { collectInPassing, functions: stores } = createStores(ctx, state);
  const redis = createRedisStores(ctx, state, clients);
  const { storeAtOnce, functions: factory } = createStoreFactory(ctx, stores.getSqliteQuotaStore, redis.open);
  const isBuiltIn = (store) => store instanceof stores.SqliteQuotaStore;
  const counting = { storeAtOnce, getQuotaStore: factory.getQuotaStore, isBuiltIn, collectInPassing };
  return {
    ...scheduling,
    ...createRules(ctx),
    ...createPlans(ctx, state),
    ...createDb(ctx, state),
    ...createAccess(state),
    ...stores,
    ...redis.functions,
    ...factory,
    ...createEnforce(ctx, state, { ...counting, saturationFor }),
    ...createRecord(ctx, state, counting),
    onQuotaExceeded: (callback) => state.listen('quotaExceeded', callback),
  };
}

module.exports = { createShare };
