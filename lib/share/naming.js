'use strict';

// Names of the virtual models a pool offers, and what an API key may use through them.

const { binding } = require('../native.js');
const { invalidArgument } = require('../errors.js');
const { requireString } = require('../args.js');

function requireStrings(value, name) {
  if (!Array.isArray(value)) throw invalidArgument(`${name} must be an array of strings`);
  for (const [index, item] of value.entries()) requireString(item, `${name}[${index}]`);
  return value;
}

function quotaGroupSlug(name) {
  return binding.quotaSlug(requireString(name, 'name'));
}

const naming = {
  quotaGroupSlug,
  quotaPoolSlug: quotaGroupSlug,

  quotaModelName(groupName, provider, model) {
    requireString(groupName, 'groupName');
    requireString(provider, 'provider');
    return binding.quotaModelName(groupName, provider, requireString(model, 'model'));
  },

  parseQuotaModelName(name) {
    const parts = binding.parseQuotaModelName(requireString(name, 'name'));
    return parts ? { groupSlug: parts[0], provider: parts[1], model: parts[2] } : null;
  },

  isQuotaModelName(name) {
    return binding.isQuotaModelName(requireString(name, 'name'));
  },

  /** An empty list is no constraint: then the other one decides alone. */
  constrainConnectionsToQuota(allowedConnections, quotaConnections) {
    requireStrings(allowedConnections, 'allowedConnections');
    requireStrings(quotaConnections, 'quotaConnections');
    if (quotaConnections.length === 0) return [...allowedConnections];
    if (allowedConnections.length === 0) return [...quotaConnections];
    const shared = new Set(quotaConnections);
    return allowedConnections.filter((id) => shared.has(id));
  },
};

module.exports = { naming, requireStrings };
