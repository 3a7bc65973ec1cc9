'use strict';

// The pure rules of quota sharing: fair share, burn rate, dimension keys, costs of a response. State-free.

const { binding } = require('../native.js');
const { requireNumber, requireObject } = require('../args.js');

const FIELDS_PER_DIMENSION = 5;

/** What the codes of the native decision mean; code 1 is "allow, but penalized". */
const BLOCK_REASONS = [null, null, 'cap-absolute', 'global-saturated', 'fair-share'];

/**
 * The one decision.
 * @param {number[][]} states per dimension: limit, total, used (0..1), consumed by the key, its cap or NaN
 * @returns {{ reason: string | null, penalized: boolean }} reason null: allowed
 */
function decideShare(states, weight, policy, saturationThreshold) {
  const flat = new Float64Array(states.length * FIELDS_PER_DIMENSION);
  for (const [index, state] of states.entries()) flat.set(state, index * FIELDS_PER_DIMENSION);
  const code = binding.shareDecide(flat, weight, policy, saturationThreshold);
  return { reason: BLOCK_REASONS[code], penalized: code === 1 };
}

function dimensionKeyToString(key) {
  return `${key.poolId}:${key.unit}:${key.window}`;
}

function decideFairShare(input) {
  const { dimensions, allocation, consumedByThisKey, saturationThreshold } = requireObject(input, 'input');
  if (dimensions.length === 0) return { kind: 'allow', reason: 'ok' };
  const { weight, capValue, capUnit, policy } = requireObject(allocation, 'allocation');
  const states = dimensions.map(({ key, limit, consumedTotal, globalUsedPercent }) => {
    const capped = typeof capValue === 'number' && capUnit === key.unit;
    const consumed = consumedByThisKey?.[dimensionKeyToString(key)] ?? 0;
    return [limit, consumedTotal, globalUsedPercent, consumed, capped ? capValue : Number.NaN];
  });
  const { reason, penalized } = decideShare(
    states,
    weight ?? Number.NaN,
    String(policy),
    saturationThreshold ?? Number.NaN,
  );
  if (reason !== null) return { kind: 'block', reason };
  return { kind: 'allow', reason: 'ok', penalized: penalized || undefined };
}

/** `undefined` is "unknown"; the native side reads that from NaN. */
function remainingOrNone(remaining) {
  return typeof remaining === 'number' ? remaining : Number.NaN;
}

function toBurnRate(rate) {
  return { tokensPerSecond: rate.tokensPerSecond, timeToExhaustionMs: rate.timeToExhaustionMs ?? null };
}

function computeBurnRate(history, remaining) {
  const flat = new Float64Array(history.length * 2);
  history.forEach(({ ts, consumed }, index) => {
    flat[index * 2] = ts;
    flat[index * 2 + 1] = consumed;
  });
  return toBurnRate(binding.shareBurnRate(flat, remainingOrNone(remaining)));
}

/** The tokens of a usage field: numbers and number texts count, anything else is 0. */
function tokensOf(value) {
  const tokens = Number(value);
  return Number.isNaN(tokens) ? 0 : tokens;
}

/** A price that is no number, or below zero, is none. */
function aboveZero(value) {
  return Math.max(value || 0, 0);
}

function buildConsumptionCost(usage, estimatedCost) {
  const fields = usage !== null && typeof usage === 'object' ? usage : {};
  return {
    tokens: tokensOf(fields.prompt_tokens ?? 0) + tokensOf(fields.completion_tokens ?? 0),
    usd: aboveZero(estimatedCost),
    requests: 1,
  };
}

/** @param {{ now(): number }} ctx */
function createRules(ctx) {
  function computeBurnRateFromWindow(consumedTotal, windowMs, remaining) {
    requireNumber(consumedTotal, 'consumedTotal');
    requireNumber(windowMs, 'windowMs');
    return toBurnRate(binding.shareBurnRateFromWindow(consumedTotal, windowMs, ctx.now(), remainingOrNone(remaining)));
  }

  return { decideFairShare, computeBurnRate, computeBurnRateFromWindow, buildConsumptionCost, dimensionKeyToString };
}

module.exports = { createRules, buildConsumptionCost, decideShare, dimensionKeyToString };
