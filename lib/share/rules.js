'use strict';

// The pure rules of quota sharing: fair share, burn rate, dimension keys, costs of a response. State-free.

const { binding } = require('../native.js');
const { invalidArgument } = require('../errors.js');
const { numberOrNone, requireArray, requireNumber, requireObject } = require('../args.js');

const FIELDS_PER_DIMENSION = 7;

/** Window lengths in ms by name. */
const WINDOW_MS = new Map(binding.shareWindows().map(({ name, ms }) => [name, ms]));

/**
 * One dimension for `decideShare`. `used` is the provider's signal, 0 to 1.
 * @returns {number[]} in the order that src/node/share_rules.rs reads
 */
function toState({ unit, window }, { limit, total, used, consumed, cap }) {
  return [limit, total, used, consumed, cap, WINDOW_MS.get(window) ?? Number.NaN, unit === 'percent' ? 0 : 1];
}

/**
 * The one decision.
 * @param {number[][]} states see `toState`
 * @returns {{ reason?: string, penalized: boolean, clearsAt?: number }} without a reason: allowed
 */
function decideShare(states, weight, policy, saturationThreshold, now) {
  const flat = new Float64Array(states.length * FIELDS_PER_DIMENSION);
  for (const [index, state] of states.entries()) flat.set(state, index * FIELDS_PER_DIMENSION);
  return binding.shareDecide(flat, weight, policy, saturationThreshold, now);
}

function dimensionKeyToString(key) {
  const { poolId, unit, window } = requireObject(key, 'key');
  try {
    return `${poolId}:${unit}:${window}`;
  } catch {
    throw invalidArgument('poolId, unit and window of a key must be texts');
  }
}

/** `undefined` is "unknown"; the native side reads that from NaN. */
function remainingOrNone(remaining) {
  return typeof remaining === 'number' ? remaining : Number.NaN;
}

function toBurnRate(rate) {
  return { tokensPerSecond: rate.tokensPerSecond, timeToExhaustionMs: rate.timeToExhaustionMs ?? null };
}

function computeBurnRate(history, remaining) {
  const flat = new Float64Array(requireArray(history, 'history').length * 2);
  history.forEach((sample, index) => {
    const { ts, consumed } = requireObject(sample, `history[${index}]`);
    flat[index * 2] = ts;
    flat[index * 2 + 1] = consumed;
  });
  return toBurnRate(binding.shareBurnRate(flat, remainingOrNone(remaining)));
}

/** A value as JavaScript counts with it; what it cannot count with is no number. */
function toNumber(value) {
  try {
    return Number(value);
  } catch {
    return Number.NaN;
  }
}

/** Numbers and number texts count, anything else is 0. */
function amountOf(value) {
  const amount = toNumber(value);
  return Number.isNaN(amount) ? 0 : amount;
}

/** A price that is no number, or below zero, is none. */
function aboveZero(value) {
  return Math.max(amountOf(value), 0);
}

function buildConsumptionCost(usage, estimatedCost) {
  const fields = usage !== null && typeof usage === 'object' ? usage : {};
  return {
    tokens: amountOf(fields.prompt_tokens ?? 0) + amountOf(fields.completion_tokens ?? 0),
    usd: aboveZero(estimatedCost),
    requests: 1,
  };
}

/** @param {object} ctx see lib/context.js */
function createRules(ctx) {
  function decideFairShare(input) {
    const { dimensions, allocation, consumedByThisKey, saturationThreshold } = requireObject(input, 'input');
    if (requireArray(dimensions, 'dimensions').length === 0) return { kind: 'allow', reason: 'ok' };
    const { weight, capValue, capUnit, policy } = requireObject(allocation, 'allocation');
    const states = dimensions.map((dimension, index) => {
      const { limit, consumedTotal, globalUsedPercent } = requireObject(dimension, `dimensions[${index}]`);
      const key = requireObject(dimension.key, `dimensions[${index}].key`);
      const capped = typeof capValue === 'number' && capUnit === key.unit;
      return toState(key, {
        limit,
        total: consumedTotal,
        used: globalUsedPercent,
        consumed: consumedByThisKey?.[dimensionKeyToString(key)] ?? 0,
        cap: capped ? capValue : Number.NaN,
      });
    });
    const now = ctx.now();
    const { reason, penalized, clearsAt } = decideShare(
      states,
      numberOrNone(weight, 'allocation.weight'),
      String(policy),
      numberOrNone(saturationThreshold, 'saturationThreshold'),
      now,
    );
    if (reason === undefined) return { kind: 'allow', reason: 'ok', penalized: penalized || undefined };
    const decision = { kind: 'block', reason };
    // The originals declare this and never set it.
    if (!ctx.recorded && clearsAt !== undefined) decision.retryAfterMs = clearsAt - now;
    return decision;
  }

  function computeBurnRateFromWindow(consumedTotal, windowMs, remaining) {
    requireNumber(consumedTotal, 'consumedTotal');
    requireNumber(windowMs, 'windowMs');
    return toBurnRate(binding.shareBurnRateFromWindow(consumedTotal, windowMs, ctx.now(), remainingOrNone(remaining)));
  }

  return { decideFairShare, computeBurnRate, computeBurnRateFromWindow, buildConsumptionCost, dimensionKeyToString };
}

module.exports = { createRules, buildConsumptionCost, decideShare, dimensionKeyToString, toState, WINDOW_MS };
