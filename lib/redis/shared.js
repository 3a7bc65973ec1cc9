'use strict';

// Shared admission: one limit held by many replicas in Redis. Decisions are the server's; this file says what to do when
// it does not answer.

const { randomBytes } = require('node:crypto');

const { invalidArgument } = require('../errors.js');
const { wholeTokens } = require('../admission.js');
const { requireString } = require('../args.js');
const { answerOf } = require('./client.js');
const {
  createPipe,
  admitOperation,
  benchOperation,
  cancelOperation,
  liftAllOperation,
  settleOperation,
} = require('./pipe.js');

/** Leases, and operations to be made up for, that are remembered. */
const MAX_REMEMBERED = 100_000;
/** Between two signs of life; the server counts a replica for 30 s. */
const SIGN_OF_LIFE_MS = 5000;

/** In step with lua/admission/gates.lua. */
const AXES = ['cooldown', 'concurrency', 'rpm', 'rpd', 'tpm', 'tpd', 'account-rpm', 'account-rpd', 'account-tpd'];
const SOURCES = ['heuristic', 'authoritative', 'credit', 'tier'];
const NUMBERS_PER_REFUSAL = 7;
const IMPOSSIBLE = -1;
const LEASE_ID = /^([\w-]{1,64})\.(\d{1,5}):([^:]+):(\d+):/;
const MAX_LEASE_NUMBER = 65_535;

/** What a settlement answers, beside 1. */
const NOTHING = 0;
const ENDED = 2;

const NOTHING_USED = { tokens: 0, requests: 0, multiplier: 1, otherwise: Number.NaN };

const NO_OPTIONS = {};
const NO_LIMITS = { rpm: null, rpd: null, tpm: null, tpd: null };

/** Whether an operation failed because of the server, not because of the caller. */
const isLoss = (error) => typeof error?.code === 'string' && error.code.startsWith('ERR_QUOTA_STORE_');

/** A lease id says where it belongs, so that any replica can settle it. */
function toLeaseId(block, number, { platform, modelId, keyId }) {
  return `${block}.${number}:${keyId}:${platform.length}:${platform}${modelId}`;
}

/** @returns {import('./pipe.js').Lease} */
function fromLeaseId(leaseId) {
  const match = LEASE_ID.exec(requireString(leaseId, 'leaseId'));
  const [start = '', block, of, key, length] = match ?? [];
  const names = leaseId.slice(start.length);
  const [number, keyId] = [Number(of), Number(key)];
  if (!match || number > MAX_LEASE_NUMBER || Number.isNaN(keyId) || names.length < Number(length)) {
    throw invalidArgument('leaseId must be one that admitShared gave');
  }
  return { block, number, platform: names.slice(0, length), modelId: names.slice(length), keyId };
}

/** The refusals of a server's answer. */
function toRefusals(numbers) {
  const refusals = [];
  for (let at = 0; at + NUMBERS_PER_REFUSAL <= numbers.length; at += NUMBERS_PER_REFUSAL) {
    const [index, axis, limit, used, inFlight, retryAt, note] = numbers.subarray(at, at + NUMBERS_PER_REFUSAL);
    const remaining = Math.max(limit - used - inFlight, 0);
    const retryAtMs = Number.isNaN(retryAt) ? null : retryAt;
    const refusal = { index, axis: AXES[axis], limit, used, inFlight, remaining, retryAtMs };
    if (refusal.axis === 'cooldown') refusal.source = SOURCES[note];
    else if (note === IMPOSSIBLE) refusal.never = true;
    refusals.push(refusal);
  }
  return refusals;
}

/** A map that forgets its oldest entry. */
function remember(map, key, value) {
  if (map.size >= MAX_REMEMBERED) map.delete(map.keys().next().value);
  map.set(key, value);
}

/**
 * @param {object} ctx see lib/context.js
 * @param {ReturnType<import('./client.js').createRedisClients>} clients
 * @param {object} local the admission of this process: see lib/admission.js
 * @param {object} rate the functions of lib/ratelimit.js
 */
function createShared(ctx, clients, local, rate) {
  const { onStoreLoss = 'local', dayWindow } = ctx.options;
  const leaseMs = clients.leaseMs;
  const name = randomBytes(9).toString('base64url');
  const slidingDay = (dayWindow ?? (ctx.recorded ? 'sliding-24h' : 'utc-day')) === 'sliding-24h';
  /** Leases of this replica: the local lease beside each, and the tokens it reserved. */
  const leases = new Map();
  /** What the server has not heard of yet, by lease or route; told when it answers again. */
  const owed = new Map();
  let unknown = 0;
  let replicas = 1;
  let signedAt = Number.NEGATIVE_INFINITY;
  let lost = false;

  const client = () => clients.client();
  const pipe = createPipe(client, { name, leaseMs, slidingDay, timeoutMs: clients.timeoutMs }, answered);

  ctx.onClose(pipe.close);

  /** After each answer of the server. */
  function answered() {
    if (lost) {
      lost = false;
      ctx.log('info', 'quota:redis', 'shared admission is held by Redis again');
    }
    if (performance.now() - signedAt > SIGN_OF_LIFE_MS) signOfLife();
    for (const [key, makeOperation] of owed) {
      owed.delete(key);
      tell(key, makeOperation);
    }
  }

  /** Tells the server something that nobody waits for; what it does not hear now it hears later. */
  function tell(key, makeOperation) {
    const operation = makeOperation();
    if (operation === null) return;
    pipe.ask(operation).catch((error) => {
      if (!isLoss(error)) return ctx.warn('quota:redis', `not shared: ${error.message}`);
      lose(error);
      remember(owed, key, makeOperation);
    });
  }

  function signOfLife() {
    signedAt = performance.now();
    answerOf(client().replicas(name)).then(
      ([count]) => {
        replicas = count;
      },
      () => {},
    );
  }

  /** One warning per outage. */
  function lose(error) {
    if (lost) return;
    lost = true;
    ctx.warn('quota:redis', `shared admission is '${onStoreLoss}' until Redis answers again: ${error.message}`);
  }

  // Admission

  async function admitShared(requests) {
    ctx.sync();
    const list = Array.isArray(requests) ? requests : [requests];
    const candidates = local.candidatesOf(list);
    if (candidates.length === 0) return { admitted: false, refusals: [], retryAtMs: null };
    const operation = admitOperation(candidates);
    let answer;
    try {
      answer = await pipe.ask(operation);
    } catch (error) {
      if (!isLoss(error)) throw error;
      lose(error);
      const { block, number } = operation;
      // It may have been taken before the answer was lost.
      if (block !== '') {
        for (const { platform, modelId, keyId } of candidates) {
          const lease = { block, number, platform, modelId, keyId };
          remember(owed, toLeaseId(block, number, lease), () => cancelOperation(lease));
        }
      }
      return withoutStore(list, candidates);
    }
    const index = answer[0];
    if (index >= 0) return admitted(index, candidates[index], operation, true);
    const refusals = toRefusals(answer.subarray(1));
    const ofCandidate = (candidate) => refusals.filter((refusal) => refusal.index === candidate);
    return { admitted: false, refusals, retryAtMs: local.earliest(candidates.length, ofCandidate, ctx.now()) };
  }

  /** @param {boolean} known whether the server gave the lease */
  function admitted(index, candidate, { block, number }, known, localLease = takeLocal(candidate)) {
    const leaseId = toLeaseId(block, number, candidate);
    remember(leases, leaseId, {
      localLease,
      known,
      tokens: candidate.tokens,
      multiplier: candidate.account.multiplier,
    });
    return { admitted: true, index, leaseId };
  }

  /** Requests in flight count here too: for the gates of this process, and for the time Redis is away. */
  function takeLocal({ platform, modelId, keyId, tokens }) {
    return ctx.isClosed() ? 0 : rate.acquireLease(platform, modelId, keyId, tokens);
  }

  function withoutStore(list, candidates) {
    if (onStoreLoss === 'open') return admitted(0, candidates[0], unknownLease(), false);
    if (onStoreLoss === 'closed') {
      const refusals = candidates.map((_, index) => ({
        index,
        axis: 'store',
        limit: 0,
        used: 0,
        inFlight: 0,
        remaining: 0,
        retryAtMs: null,
      }));
      return { admitted: false, refusals, retryAtMs: null };
    }
    const answer = local.admitPart(list, NO_OPTIONS, replicas);
    if (!answer.admitted) return answer;
    return admitted(answer.index, candidates[answer.index], unknownLease(), false, answer.leaseId);
  }

  /** Of a lease that the server does not know. */
  function unknownLease() {
    unknown += 1;
    return { block: `${name}_${unknown.toString(36)}`, number: 0 };
  }

  // The end of a lease

  async function settleShared(leaseId, usage = NO_OPTIONS) {
    const lease = fromLeaseId(leaseId);
    const { tokens: stated, requests } = local.usageOf(usage);
    const tokens = Number.isNaN(stated) ? stated : wholeTokens(stated);
    ctx.sync();
    const own = leases.get(leaseId);
    leases.delete(leaseId);
    if (own) local.settle(own.localLease, usage);
    const { multiplier } = own ?? local.candidatesOf([{ ...lease, limits: NO_LIMITS }])[0].account;
    const settling = (otherwise) => settleOperation(lease, { tokens, requests, multiplier, otherwise });
    const reserved = own?.tokens ?? Number.NaN;
    try {
      const [outcome, recorded] = await pipe.ask(settling(reserved));
      if (!own && outcome !== NOTHING) recordHere(lease, requests, recorded);
      return { settled: outcome !== NOTHING, expired: outcome === ENDED };
    } catch (error) {
      if (!isLoss(error)) throw error;
      lose(error);
      // It may have happened. A lease that the server gave is gone then, and nothing is recorded again; of one that it
      // did not give it remembers the settlement.
      if (!owed.has(leaseId)) remember(owed, leaseId, () => settling(own?.known ? Number.NaN : reserved));
      return { settled: own !== undefined, expired: false };
    }
  }

  /** The lease was taken by another replica: this one still sees what was used. */
  function recordHere({ platform, modelId, keyId }, requests, tokens) {
    if (ctx.isClosed()) return;
    for (let index = 0; index < requests; index += 1) rate.recordRequest(platform, modelId, keyId);
    if (tokens > 0) rate.recordTokens(platform, modelId, keyId, tokens);
  }

  async function cancelShared(leaseId) {
    const lease = fromLeaseId(leaseId);
    ctx.sync();
    const own = leases.get(leaseId);
    leases.delete(leaseId);
    if (own) local.cancel(own.localLease);
    // Of another replica: a settlement of nothing, which the server remembers, should that replica settle the lease after all.
    const ending = own ? cancelOperation(lease) : settleOperation(lease, NOTHING_USED);
    try {
      const [found] = await pipe.ask(ending);
      return found > 0 || own?.known === false;
    } catch (error) {
      if (!isLoss(error)) throw error;
      lose(error);
      if (!owed.has(leaseId)) remember(owed, leaseId, () => ending);
      return own !== undefined;
    }
  }

  // Cooldowns: what benches or lifts a route here does so everywhere

  function shareBench({ platform, modelId, keyId, expiresAtMs, source }) {
    const until = expiresAtMs ?? Number.POSITIVE_INFINITY;
    tell(`bench:${keyId}:${platform.length}:${platform}${modelId}`, () => {
      const remaining = until - ctx.now();
      return remaining > 0 ? benchOperation({ platform, modelId, keyId }, remaining, SOURCES.indexOf(source)) : null;
    });
  }

  function shareLift(route) {
    const { platform, modelId, keyId } = route;
    tell(`bench:${keyId}:${platform.length}:${platform}${modelId}`, () => benchOperation(route, -1, 0));
  }

  function clearCooldownEarly(platform, modelId, keyId) {
    const cleared = rate.clearCooldownEarly(platform, modelId, keyId);
    shareLift({ platform, modelId, keyId });
    return cleared;
  }

  function clearCooldownsForKey(keyId) {
    const count = rate.clearCooldownsForKey(keyId);
    if (Number.isInteger(keyId)) tell(`lift:${keyId}`, () => liftAllOperation(keyId));
    return count;
  }

  const sharing = { admitShared, settleShared, cancelShared };
  if (clients.url === undefined) return sharing;
  ctx.on('cooldown_set', shareBench);
  ctx.on('cooldown_recovered', ({ keyId, cooldowns }) => {
    for (const { platform, modelId } of cooldowns) shareLift({ platform, modelId, keyId });
  });
  return { ...sharing, clearCooldownEarly, clearCooldownsForKey };
}

module.exports = { createShared };
