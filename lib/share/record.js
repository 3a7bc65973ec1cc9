'use strict';

// What was spent: adds the cost of a finished request to the key's counters. Told when it fails, never thrown.

const { requireObject } = require('../args.js');
const { buildConsumptionCost } = require('./rules.js');

/** Outcomes of the native recording, in step with src/node/share.rs. */
const RECORDED = 1;
const UNREADABLE = 2;

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./state.js').createState>} state
 * @param {{ storeAtOnce: Function, getQuotaStore: Function, isBuiltIn: Function, collectInPassing: Function }} parts
 */
function createRecord(ctx, { native }, parts) {
  const { storeAtOnce, getQuotaStore, isBuiltIn, collectInPassing } = parts;

  const numberOr = (value, fallback) => (typeof value === 'number' ? value : fallback);

  /** The originals throw on a plan that is no list of limits; see the recorded runs. */
  function requireReadable(readable, provider) {
    if (!readable) throw new TypeError(`the plan of ${provider} cannot be read`);
  }

  function recordBuiltIn(input, cost) {
    const { apiKeyId, connectionId, provider } = input;
    const now = ctx.now();
    ctx.sync();
    const { tokens, usd, requests } = cost;
    const outcome = native.record(apiKeyId, connectionId, provider, input.model || '', tokens, usd, requests, now);
    if (ctx.link.pending) ctx.drain();
    requireReadable(outcome !== UNREADABLE, provider);
    if (outcome === RECORDED) collectInPassing(now);
  }

  async function recordThrough(store, input, cost) {
    const { apiKeyId, connectionId, provider } = input;
    const model = input.model || '';
    ctx.sync();
    const target = native.target(apiKeyId, connectionId, provider, model);
    ctx.drain();
    if (target === null) return;
    requireReadable(!target.unreadable, provider);
    const { poolId, dimensions, modelUnit } = target;
    const counters = dimensions.map(({ unit, window }) => ({ poolId, unit, window }));
    if (modelUnit !== undefined) {
      counters.push({ poolId: `${poolId}:model:${model}`, unit: modelUnit, window: 'hourly' });
    }
    const failures = new Set();
    await Promise.all(
      counters.map(async (counter) => {
        const part = Object.hasOwn(cost, counter.unit) ? cost[counter.unit] : 0;
        if (!(part > 0)) return;
        try {
          await store.consume(apiKeyId, counter, part);
        } catch (error) {
          failures.add(error?.message ?? String(error));
        }
      }),
    );
    if (failures.size > 0) ctx.warn('quota:record', `not recorded: ${[...failures].join('; ')}`);
  }

  async function recordConsumption(input) {
    const { apiKeyId, connectionId, provider, model } = input ?? {};
    if ([apiKeyId, connectionId, provider, model ?? ''].some((name) => typeof name !== 'string')) {
      ctx.warn('quota:record', 'not recorded: apiKeyId, connectionId, provider and model must be strings');
      return;
    }
    const spent = input.cost ?? {};
    const cost = {
      tokens: numberOr(spent.tokens, 0),
      usd: numberOr(spent.usd, 0),
      requests: numberOr(spent.requests ?? 1, 0),
    };
    const store = storeAtOnce() ?? (await getQuotaStore());
    if (isBuiltIn(store)) recordBuiltIn(input, cost);
    else await recordThrough(store, input, cost);
  }

  function scheduleRecordConsumption(input, log) {
    setImmediate(() => {
      recordConsumption(input).catch((error) => {
        const message = `not recorded: ${error.message}`;
        if (typeof log?.warn === 'function') log.warn('quota:record', message);
        else ctx.warn('quota:record', message);
      });
    });
  }

  /** A price that cannot be had, or makes no sense, is 0: tokens and the request still count. */
  async function priceOf({ provider, model, streamUsage, serviceTier }, calculateCost) {
    if (streamUsage === null || typeof streamUsage !== 'object') return 0;
    try {
      return await calculateCost(provider || 'unknown', model, streamUsage, { serviceTier });
    } catch {
      return 0;
    }
  }

  async function recordStreamingConsumption(params, deps) {
    const { apiKeyId, connectionId, provider, model, streamUsage, streamStatus } = requireObject(params, 'params');
    requireObject(deps, 'deps');
    if (!apiKeyId || !connectionId || streamStatus !== 200) return;
    const price = await priceOf(params, deps.calculateCost);
    const schedule = deps.scheduleRecordConsumption ?? scheduleRecordConsumption;
    schedule({
      apiKeyId,
      connectionId,
      provider: provider || 'unknown',
      model: model || undefined,
      cost: buildConsumptionCost(streamUsage, price),
    });
  }

  return { recordConsumption, scheduleRecordConsumption, recordStreamingConsumption };
}

module.exports = { createRecord };
