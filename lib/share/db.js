'use strict';

// The host's quota database modules: schema, pools, allocations, groups, model caps, raw counters. Synchronous.

const { randomUUID } = require('node:crypto');

const { requireArray, requireNumber, requireObject, requireString } = require('../args.js');

const DEFAULT_GROUP_ID = 'group-demo';
const MAX_LISTED = 500;
const DEFAULT_LISTED = 50;

const absent = (value) => value === undefined || value === null;

/** An optional value of the native layer, where absent is `undefined`. */
const optional = (check, value, name) => (absent(value) ? undefined : check(value, name));

/** The members that a list names; undefined when it names none. */
function listedConnections(connectionIds) {
  const ids = absent(connectionIds) ? [] : requireArray(connectionIds, 'connectionIds');
  return ids.length === 0 ? undefined : [...new Set(ids.map((id) => requireString(id, 'connectionIds[…]')))];
}

/** NULL columns are absent in the native layer. */
function toAllocation(row) {
  requireObject(row, 'allocation');
  return {
    apiKeyId: requireString(row.apiKeyId, 'allocation.apiKeyId'),
    weight: requireNumber(row.weight, 'allocation.weight'),
    policy: optional(requireString, row.policy, 'allocation.policy') ?? 'hard',
    capValue: optional(requireNumber, row.capValue, 'allocation.capValue'),
    capUnit: optional(requireString, row.capUnit, 'allocation.capUnit'),
  };
}

function toAllocations(rows) {
  return absent(rows) ? [] : requireArray(rows, 'allocations').map(toAllocation);
}

/** Unit and window of a stored row: what follows the first colon of its dimension key, also when the pool id has one. */
function toConsumption(row) {
  const [, unit = '', ...window] = row.dimensionKey.split(':');
  return { ...row, unit, window: window.join(':') };
}

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./state.js').createState>} state
 */
function createDb(ctx, { call, listen, notify, recorded }) {
  const timestamp = () => new Date(ctx.now()).toISOString();

  function ensureQuotaSchema() {
    return call((native) => native.ensureSchema());
  }

  // Pools

  function listPools() {
    return call((native) => native.listPools());
  }

  function getPool(id) {
    requireString(id, 'id');
    return call((native) => native.getPool(id));
  }

  function getPoolsByGroup(groupId) {
    requireString(groupId, 'groupId');
    return call((native) => native.poolsByGroup(groupId));
  }

  function createPool(input) {
    const { connectionId, connectionIds, name, groupId, allocations } = requireObject(input, 'input');
    requireString(name, 'name');
    const members = listedConnections(connectionIds) ?? [requireString(connectionId, 'connectionId')];
    const group = optional(requireString, groupId, 'groupId') || DEFAULT_GROUP_ID;
    const rows = toAllocations(allocations);
    const id = randomUUID();
    const pool = call((native) => {
      native.createPool(id, members, name, group, timestamp(), rows);
      return native.getPool(id);
    });
    notify('poolChanged', id);
    return pool;
  }

  function updatePool(id, changes) {
    requireString(id, 'id');
    const { name, groupId, connectionIds, allocations } = requireObject(changes, 'changes');
    const members = listedConnections(connectionIds);
    const rows = optional(toAllocations, allocations);
    const newName = optional(requireString, name, 'name');
    const group = optional(requireString, groupId, 'groupId');
    const pool = call((native) => (native.updatePool(id, newName, group, members, rows) ? native.getPool(id) : null));
    if (pool !== null) notify('poolChanged', id);
    return pool;
  }

  function deletePool(id) {
    requireString(id, 'id');
    // The originals tell the host to drop the pool's routes even when the deletion then fails.
    if (recorded) notify('poolRemoved', id);
    const deleted = call((native) => native.deletePool(id));
    if (!recorded) notify('poolRemoved', id);
    return deleted;
  }

  function upsertAllocations(poolId, allocations) {
    requireString(poolId, 'poolId');
    const rows = toAllocations(allocations);
    call((native) => native.replaceAllocations(poolId, rows));
    notify('poolChanged', poolId);
  }

  function listAllocationsForApiKey(apiKeyId) {
    requireString(apiKeyId, 'apiKeyId');
    return call((native) => native.allocationsOfKey(apiKeyId));
  }

  // Groups

  function listGroups() {
    return call((native) => native.listGroups());
  }

  function getGroup(id) {
    requireString(id, 'id');
    return call((native) => native.getGroup(id));
  }

  function getGroupName(id) {
    return getGroup(id)?.name ?? null;
  }

  function createGroup(name) {
    requireString(name, 'name');
    const id = randomUUID();
    return call((native) => {
      native.createGroup(id, name, timestamp());
      return native.getGroup(id);
    });
  }

  function renameGroup(id, name) {
    requireString(id, 'id');
    requireString(name, 'name');
    return call((native) => native.renameGroup(id, name));
  }

  function deleteGroup(id) {
    requireString(id, 'id');
    return call((native) => native.deleteGroup(id));
  }

  // Model caps

  function getModelCap(poolId, apiKeyId, model) {
    requireString(poolId, 'poolId');
    requireString(apiKeyId, 'apiKeyId');
    requireString(model, 'model');
    return call((native) => native.getModelCap(poolId, apiKeyId, model));
  }

  function listModelCaps(poolId, apiKeyId) {
    requireString(poolId, 'poolId');
    requireString(apiKeyId, 'apiKeyId');
    return call((native) => native.listModelCaps(poolId, apiKeyId));
  }

  function setModelCap(cap) {
    const { poolId, apiKeyId, model, capValue, capUnit } = requireObject(cap, 'cap');
    requireString(poolId, 'poolId');
    requireString(apiKeyId, 'apiKeyId');
    requireString(model, 'model');
    requireNumber(capValue, 'capValue');
    requireString(capUnit, 'capUnit');
    call((native) => native.setModelCap({ poolId, apiKeyId, model, capValue, capUnit }));
  }

  function deleteModelCap(poolId, apiKeyId, model) {
    requireString(poolId, 'poolId');
    requireString(apiKeyId, 'apiKeyId');
    requireString(model, 'model');
    call((native) => native.deleteModelCap(poolId, apiKeyId, model));
  }

  // Raw counters

  function requireCounter(apiKeyId, dimensionKey, bucketIndex) {
    requireString(apiKeyId, 'apiKeyId');
    requireString(dimensionKey, 'dimensionKey');
    requireNumber(bucketIndex, 'bucketIndex');
  }

  function getBucket(apiKeyId, dimensionKey, bucketIndex) {
    requireCounter(apiKeyId, dimensionKey, bucketIndex);
    return call((native) => native.getBucket(apiKeyId, dimensionKey, bucketIndex));
  }

  function incrementBucket(apiKeyId, dimensionKey, bucketIndex, cost, now = ctx.now()) {
    requireCounter(apiKeyId, dimensionKey, bucketIndex);
    requireNumber(cost, 'cost');
    requireNumber(now, 'now');
    call((native) => native.incrementBucket(apiKeyId, dimensionKey, bucketIndex, cost, now));
  }

  function getPair(apiKeyId, dimensionKey, bucketIndex) {
    requireCounter(apiKeyId, dimensionKey, bucketIndex);
    return call((native) => native.getPair(apiKeyId, dimensionKey, bucketIndex));
  }

  function sumPoolDimension(dimensionKey, bucketIndex) {
    requireString(dimensionKey, 'dimensionKey');
    requireNumber(bucketIndex, 'bucketIndex');
    const { curr, prev } = call((native) => native.sumDimension(dimensionKey, bucketIndex));
    return { currTotal: curr, prevTotal: prev };
  }

  function listConsumptionForPool(poolId, limit = DEFAULT_LISTED) {
    requireString(poolId, 'poolId');
    requireNumber(limit, 'limit');
    const listed = Math.max(1, Math.min(MAX_LISTED, limit));
    return call((native) => native.listConsumption(poolId, listed)).map(toConsumption);
  }

  function gcOlderThan(timestampMs) {
    requireNumber(timestampMs, 'timestampMs');
    return call((native) => native.deleteOlderThan(timestampMs));
  }

  return {
    ensureQuotaSchema,
    listPools,
    getPool,
    getPoolsByGroup,
    createPool,
    updatePool,
    deletePool,
    upsertAllocations,
    listAllocationsForApiKey,
    listGroups,
    getGroup,
    getGroupName,
    createGroup,
    renameGroup,
    deleteGroup,
    getModelCap,
    listModelCaps,
    setModelCap,
    deleteModelCap,
    getBucket,
    incrementBucket,
    getPair,
    sumPoolDimension,
    listConsumptionForPool,
    gcOlderThan,
    onPoolChanged: (callback) => listen('poolChanged', callback),
    onPoolRemoved: (callback) => listen('poolRemoved', callback),
  };
}

module.exports = { createDb };
