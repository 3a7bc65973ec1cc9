'use strict';

// May this key spend on this connection now? One native call when the built-in store counts and the signals are at hand;
// the same questions, asked of the host's own store, otherwise.

const { binding } = require('../native.js');
const { decideShare, toState, WINDOW_MS } = require('./rules.js');

/** Outcome codes of the native enforcement, in step with src/node/share.rs. */
const NOTHING = 0;
const ALLOW = 1;
const DEPRIORITIZE = 2;
const MODEL_CAP = 3;
const NEED_SIGNALS = 7;
const UNREADABLE = 8;
/** Added to a code: warnings wait to be passed on. */
const NOTICES = 16;
const REASONS = [null, null, null, 'model-cap', 'cap-absolute', 'global-saturated', 'fair-share'];

const DEFAULT_THRESHOLD = 0.5;
const NO_SIGNALS = new Float64Array(0);
/** A plan that changes between the question for its signals and the decision is asked again, at most so often. */
const MAX_ATTEMPTS = 3;
/** Who asked before; beyond it all are forgotten, and get to know each other again. */
const MAX_REMEMBERED = 50_000;

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./state.js').createState>} state
 * @param {{ saturationFor: Function, storeAtOnce: Function, getQuotaStore: Function, isBuiltIn: Function }} parts
 */
function createEnforce(ctx, { native, recorded, notify }, parts) {
  const { saturationFor, storeAtOnce, getQuotaStore, isBuiltIn } = parts;
  /** provider → connection → what is remembered of it (see `placeOf`). */
  let places = new Map();
  let remembered = 0;

  function forget() {
    places = new Map();
    remembered = 0;
    native.forget();
  }

  ctx.onReset(forget);

  /** In the runs a threshold that is no number never holds a key to its share. Corrected: it counts as not set. */
  function threshold() {
    const stated = ctx.env().QUOTA_SATURATION_THRESHOLD;
    if (stated === undefined) return DEFAULT_THRESHOLD;
    const text = String(stated);
    const value = Number(text);
    if (recorded) return value;
    return text.trim() !== '' && value >= 0 && value <= 1 ? value : DEFAULT_THRESHOLD;
  }

  function warn(message) {
    ctx.warn('quota:enforce', message);
  }

  // Decisions

  function block(input, reason, clearsAt, now) {
    const { apiKeyId, provider, connectionId, model } = input;
    const isModelCap = reason === 'model-cap';
    const event = { apiKeyId, provider, connectionId, reason };
    if (isModelCap) event.model = model;
    notify('quotaExceeded', event);
    const decision = {
      kind: 'block',
      reason: isModelCap
        ? `The ${provider} quota share of this key is used up (model-cap: ${model})`
        : `The ${provider} quota share of this key is used up (${reason})`,
      httpStatus: 429,
    };
    // The originals declare this and never set it; on a model cap they leave it out.
    if (!recorded && clearsAt > now) decision.retryAfterSeconds = Math.ceil((clearsAt - now) / 1000);
    else if (!isModelCap) decision.retryAfterSeconds = undefined;
    return decision;
  }

  function toDecision(code, input, now) {
    if (code === NOTHING) return { kind: 'allow' };
    if (code === ALLOW) return { kind: 'allow', deprioritize: false };
    if (code === DEPRIORITIZE) return { kind: 'allow', deprioritize: true };
    if (code === UNREADABLE) throw new TypeError(`the plan of ${input.provider} cannot be read`);
    return block(input, REASONS[code], native.clearsAt, now);
  }

  // Signals

  /**
   * What is remembered of a connection: the signals its plan needs, so that cached ones are at hand before the native
   * call, and the numbers by which the native side knows those who ask.
   */
  function placeOf(provider, connectionId) {
    let connections = places.get(provider);
    if (connections === undefined) {
      connections = new Map();
      places.set(provider, connections);
    }
    let place = connections.get(connectionId);
    if (place === undefined) {
      place = { plan: -1, dimensions: [], values: NO_SIGNALS, askers: new Map() };
      connections.set(connectionId, place);
    }
    return place;
  }

  function askerOf(place, { apiKeyId, connectionId, provider, model }) {
    let keys = place.askers.get(model || '');
    if (keys === undefined) {
      keys = new Map();
      place.askers.set(model || '', keys);
    }
    let asker = keys.get(apiKeyId);
    if (asker === undefined) {
      asker = native.remember(apiKeyId, connectionId, provider, model || '');
      keys.set(apiKeyId, asker);
      remembered += 1;
    }
    return asker;
  }

  /** Fills in the signals when all of them are cached. A host's own signal may only be asked for what is enforced. */
  function fillFromCache({ plan, dimensions, values }, connectionId, provider) {
    if (plan < 0 || ctx.options.saturation) return false;
    for (let index = 0; index < dimensions.length; index += 1) {
      const value = saturationFor(connectionId, provider, dimensions[index]);
      if (typeof value !== 'number') return false;
      values[index] = value;
    }
    return true;
  }

  /** A signal that fails is 0: the provider is taken as having room. At most one warning for all of them. */
  async function askSignals(dimensions, connectionId, provider) {
    const failures = new Set();
    const failed = (error) => {
      failures.add(error?.message ?? String(error));
      return 0;
    };
    const values = await Promise.all(
      dimensions.map(async ({ unit, window }) => {
        try {
          return await saturationFor(connectionId, provider, { unit, window });
        } catch (error) {
          return failed(error);
        }
      }),
    );
    if (failures.size > 0)
      warn(`the saturation of ${provider} is unknown and taken as none (${[...failures].join('; ')})`);
    return Float64Array.from(values, (value) => (typeof value === 'number' ? value : Number.NaN));
  }

  // The built-in store

  function ask(input, now, place, plan, signals) {
    const code = native.enforce(askerOf(place, input), now, threshold(), plan, signals);
    if (code < NOTICES) return code;
    ctx.drain();
    return code - NOTICES;
  }

  async function enforceWithSignals(input) {
    const { connectionId, provider } = input;
    let code = NEED_SIGNALS;
    let now = 0;
    for (let attempt = 0; code === NEED_SIGNALS && attempt < MAX_ATTEMPTS; attempt += 1) {
      const { plan, dimensions } = native.needed();
      const signals = await askSignals(dimensions, connectionId, provider);
      // Closed while the request waited: as without a database.
      if (ctx.isClosed()) return { kind: 'allow' };
      ctx.sync();
      now = ctx.now();
      const place = placeOf(provider, connectionId);
      Object.assign(place, { plan, dimensions, values: signals });
      code = ask(input, now, place, plan, signals);
    }
    if (code === NEED_SIGNALS) {
      warn(`the plan of ${provider} changes faster than its saturation can be asked`);
      return { kind: 'allow' };
    }
    return toDecision(code, input, now);
  }

  function enforceBuiltIn(input) {
    ctx.sync();
    if (remembered > MAX_REMEMBERED) forget();
    const { connectionId, provider } = input;
    const now = ctx.now();
    const place = placeOf(provider, connectionId);
    const code = fillFromCache(place, connectionId, provider)
      ? ask(input, now, place, place.plan, place.values)
      : ask(input, now, place, -1, NO_SIGNALS);
    return code === NEED_SIGNALS ? enforceWithSignals(input) : toDecision(code, input, now);
  }

  // A store of the host's

  /** Reads counters; what fails reads as 0, with one warning for all. */
  function createReader(store) {
    const failures = new Set();
    return {
      async read(method, ...args) {
        try {
          return await store[method](...args);
        } catch (error) {
          failures.add(error?.message ?? String(error));
          return null;
        }
      },
      report() {
        if (failures.size === 0) return;
        warn(`the quota store failed, what it did not say counts as nothing (${[...failures].join('; ')})`);
      },
    };
  }

  async function enforceThrough(store, input) {
    ctx.sync();
    const { apiKeyId, connectionId, provider } = input;
    const model = input.model || '';
    const grounds = native.grounds(apiKeyId, connectionId, provider, model);
    ctx.drain();
    if (grounds === null) return { kind: 'allow' };
    const reader = createReader(store);
    const decision = await decideThrough(reader, grounds, input, model);
    reader.report();
    return decision;
  }

  async function decideThrough(reader, grounds, input, model) {
    const { apiKeyId, connectionId, provider } = input;
    const { poolId, modelCapUnit, modelCapValue, dimensions } = grounds;
    if (modelCapUnit !== undefined) {
      const counter = { poolId: `${poolId}:model:${model}`, unit: modelCapUnit, window: 'hourly' };
      const used = await reader.read('peek', apiKeyId, counter);
      if (used !== null && used >= modelCapValue) {
        const now = ctx.now();
        const clearsAt = binding.shareClearsAt(used, modelCapValue, now, WINDOW_MS.get('hourly'));
        return block(input, REASONS[MODEL_CAP], clearsAt, now);
      }
    }
    if (grounds.unreadable) throw new TypeError(`the plan of ${provider} cannot be read`);
    if (!grounds.hasPlan) return { kind: 'allow' };
    const signals = await askSignals(dimensions, connectionId, provider);
    const states = await Promise.all(
      dimensions.map(async ({ unit, window, limit: planned }, index) => {
        const counter = { poolId, unit, window };
        const limit = planned * grounds.connections;
        const used = signals[index];
        const total =
          unit === 'percent' ? used * limit : ((await reader.read('poolConsumedTotal', poolId, counter)) ?? 0);
        const consumed = (await reader.read('peek', apiKeyId, counter)) ?? 0;
        const capped = grounds.capUnit === unit && grounds.capValue !== undefined;
        return toState(counter, { limit, total, used, consumed, cap: capped ? grounds.capValue : Number.NaN });
      }),
    );
    const now = ctx.now();
    const { weight, policy } = grounds;
    const { reason, penalized, clearsAt } = decideShare(states, weight, policy, threshold(), now);
    if (reason !== undefined) return block(input, reason, clearsAt, now);
    return { kind: 'allow', deprioritize: penalized };
  }

  // The function

  function enforceWith(store, input) {
    return isBuiltIn(store) ? enforceBuiltIn(input) : enforceThrough(store, input);
  }

  function isRequest(input) {
    const { apiKeyId, connectionId, provider, model } = input ?? {};
    return [apiKeyId, connectionId, provider, model ?? ''].every((name) => typeof name === 'string');
  }

  /** Not `async`: with everything at hand the promise it returns is settled already. */
  function enforceQuotaShare(input) {
    try {
      if (!isRequest(input)) {
        warn('the request passes: apiKeyId, connectionId, provider and model must be strings');
        return Promise.resolve({ kind: 'allow' });
      }
      const store = storeAtOnce();
      if (store !== null) return Promise.resolve(enforceWith(store, input));
      ctx.assertOpen();
      return getQuotaStore().then((opened) => (ctx.isClosed() ? { kind: 'allow' } : enforceWith(opened, input)));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  return { enforceQuotaShare };
}

module.exports = { createEnforce };
