'use strict';

// Plans of connections: stored rows, the catalog of known providers, and which of them applies.

const { requireString } = require('../args.js');
const { invalidArgument } = require('../errors.js');
const { binding } = require('../native.js');

/** A stored plan as JavaScript reads it; text that is no JSON has no dimensions. */
function toPlan({ connectionId, provider, dimensionsJson, source }) {
  let dimensions = [];
  try {
    dimensions = JSON.parse(dimensionsJson);
  } catch {
    // Malformed text is a plan without dimensions.
  }
  return { connectionId, provider, dimensions, source };
}

/** The text of a plan. A plan that cannot be written as text (a cycle, a BigInt) is a wrong argument. */
function toText(dimensions) {
  try {
    return JSON.stringify(dimensions);
  } catch (error) {
    throw invalidArgument(`dimensions cannot be stored: ${error?.message}`);
  }
}

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./state.js').createState>} state
 */
function createPlans(ctx, { call, recorded }) {
  const catalog = binding.shareCatalog();

  function requireReadable(provider) {
    if (recorded && provider in Object.prototype) throw new TypeError(`the plan of "${provider}" has no dimensions`);
  }

  function knownProviders() {
    return catalog.map(({ provider }) => provider);
  }

  function getKnownPlan(provider) {
    requireString(provider, 'provider');
    requireReadable(provider);
    const known = catalog.find((row) => row.provider === provider);
    return known === undefined ? null : { provider, dimensions: known.dimensions.map((row) => ({ ...row })) };
  }

  function resolvePlan(connectionId, provider) {
    requireString(connectionId, 'connectionId');
    requireString(provider, 'provider');
    const resolved = call((native) => native.resolvePlan(connectionId, provider));
    if (resolved.stored !== undefined) return toPlan(resolved.stored);
    if (resolved.unreadable) requireReadable(provider);
    const { dimensions, known } = resolved;
    return { connectionId: null, provider, dimensions, source: known ? 'auto' : 'manual' };
  }

  function getProviderPlan(connectionId) {
    requireString(connectionId, 'connectionId');
    const row = call((native) => native.getPlan(connectionId));
    return row === null ? null : toPlan(row);
  }

  function listProviderPlans() {
    return call((native) => native.listPlans()).map(toPlan);
  }

  function upsertProviderPlan(connectionId, provider, dimensions, source) {
    requireString(connectionId, 'connectionId');
    requireString(provider, 'provider');
    requireString(source, 'source');
    const row = { connectionId, provider, dimensionsJson: toText(dimensions) ?? '[]', source };
    call((native) => native.upsertPlan(row, new Date(ctx.now()).toISOString()));
  }

  function deleteProviderPlan(connectionId) {
    requireString(connectionId, 'connectionId');
    return call((native) => native.deletePlan(connectionId));
  }

  return {
    knownProviders,
    getKnownPlan,
    resolvePlan,
    getProviderPlan,
    listProviderPlans,
    upsertProviderPlan,
    deleteProviderPlan,
    // The host's own module names them so.
    getPlan: getProviderPlan,
    listPlans: listProviderPlans,
    upsertPlan: upsertProviderPlan,
    deletePlan: deleteProviderPlan,
  };
}

module.exports = { createPlans };
