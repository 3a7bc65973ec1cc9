'use strict';

// What API keys may use through the pools they are limited to.

const { requireString } = require('../args.js');
const { requireStrings } = require('./naming.js');

/** @param {ReturnType<import('./state.js').createState>} state */
function createAccess({ call }) {
  return {
    resolveQuotaKeyScope(poolIds) {
      const ids = poolIds === null || poolIds === undefined ? [] : requireStrings(poolIds, 'poolIds');
      if (ids.length === 0) return { connectionIds: [], providers: [], poolSlugs: [] };
      return call((native) => native.keyScope(ids));
    },

    reconcilePoolExclusivity(poolId, previousKeyIds, nextKeyIds, exclusive) {
      requireString(poolId, 'poolId');
      requireStrings(previousKeyIds, 'previousKeyIds');
      requireStrings(nextKeyIds, 'nextKeyIds');
      call((native) => native.reconcileKeys(poolId, previousKeyIds, nextKeyIds, Boolean(exclusive)));
    },
  };
}

module.exports = { createAccess };
