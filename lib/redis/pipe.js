'use strict';

// Operations of shared admission on their way to the server. What is asked while others are under way goes together, in
// order, as one step: the more there is to do, the less each costs.

const { QuotaCoreError } = require('../errors.js');
const { answerOf } = require('./client.js');

/** Batches under way at a time; more would only make them smaller. */
const MAX_BATCHES = 2;
/** What one step of the server may hold, so that others are not kept waiting. */
const MAX_OPERATIONS = 128;
const MAX_CANDIDATES = 1024;
/** The part of its time that an operation may wait for its turn; the rest is the server's. */
const WAITING_PART = 0.75;

/** Operation codes, in step with src/node/redis.rs. */
const ADMIT = 0;
const SETTLE = 1;
const CANCEL = 2;
const BENCH = 3;
const LIFT_ALL = 4;

/**
 * An operation: its names and numbers as the native side reads them, and how many candidates it looks at.
 * @typedef {{ names: string[], numbers: number[], weight: number }} Operation
 */

/** @typedef {{ platform: string, modelId: string, keyId: number }} Route */

/**
 * Takes a lease of the first candidate that passes.
 * Answer: the candidate, or -1 and seven numbers for each refusal (see lua/admission.lua).
 */
function admitOperation(lease, lastsMs, candidates) {
  const names = [lease];
  const numbers = [ADMIT, lastsMs, candidates.length];
  for (const { platform, modelId, keyId, tokens, limits, account, concurrency } of candidates) {
    names.push(platform, modelId);
    numbers.push(keyId, tokens, limits.rpm, limits.rpd, limits.tpm, limits.tpd);
    numbers.push(account.rpm, account.rpd, account.tpd, account.multiplier, concurrency);
  }
  return { names, numbers, weight: candidates.length };
}

/** Answer: 0 nothing recorded, 1 settled, 2 settled after its end, 3 recorded without a lease. */
function settleOperation(lease, { platform, modelId, keyId }, { tokens, requests, multiplier, otherwise }) {
  return {
    names: [lease, platform, modelId],
    numbers: [SETTLE, keyId, tokens, requests, multiplier, otherwise],
    weight: 1,
  };
}

function cancelOperation(lease, { platform, modelId, keyId }) {
  return { names: [lease, platform, modelId], numbers: [CANCEL, keyId], weight: 1 };
}

/** @param {number} durationMs below 0: the bench is lifted */
function benchOperation({ platform, modelId, keyId }, durationMs, source) {
  return { names: [platform, modelId], numbers: [BENCH, keyId, durationMs, source], weight: 1 };
}

function liftAllOperation(keyId) {
  return { names: [], numbers: [LIFT_ALL, keyId], weight: 1 };
}

/**
 * @param {() => object} client the native client
 * @param {{ slidingDay: boolean, timeoutMs: number }} options
 * @param {() => void} answered called after each batch that the server answered
 */
function createPipe(client, { slidingDay, timeoutMs }, answered) {
  const waiting = [];
  let batches = 0;
  let scheduled = false;

  /** Rejects what waited too long behind a server that hardly answers. */
  function dropLate() {
    const from = waiting.findIndex(({ asked }) => performance.now() - asked <= timeoutMs * WAITING_PART);
    const late = waiting.splice(0, from < 0 ? waiting.length : from);
    for (const { reject } of late) {
      reject(new QuotaCoreError('ERR_QUOTA_STORE_TIMEOUT', `the Redis server did not answer within ${timeoutMs} ms`));
    }
  }

  /** The next operations that make one step. */
  function take() {
    let weight = 0;
    let count = 0;
    while (count < waiting.length && count < MAX_OPERATIONS) {
      weight += waiting[count].operation.weight;
      if (count > 0 && weight > MAX_CANDIDATES) break;
      count += 1;
    }
    return waiting.splice(0, count);
  }

  async function send(batch) {
    try {
      const names = batch.flatMap(({ operation }) => operation.names);
      const numbers = Float64Array.from(batch.flatMap(({ operation }) => operation.numbers));
      const withinMs = Math.max(timeoutMs - (performance.now() - batch[0].asked), timeoutMs * (1 - WAITING_PART));
      const flat = await answerOf(client().admission(names, numbers, slidingDay, withinMs));
      let at = 0;
      for (const { resolve } of batch) {
        const count = flat[at];
        resolve(flat.subarray(at + 1, at + 1 + count));
        at += 1 + count;
      }
      answered();
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  function flush() {
    scheduled = false;
    dropLate();
    while (waiting.length > 0 && batches < MAX_BATCHES) {
      batches += 1;
      send(take()).finally(() => {
        batches -= 1;
        schedule();
      });
    }
  }

  function schedule() {
    if (scheduled || waiting.length === 0) return;
    scheduled = true;
    // After the code that asks now: what it asks for in one go travels together.
    queueMicrotask(flush);
  }

  return {
    /** @returns {Promise<Float64Array>} the server's time, then the operation's answer */
    ask(operation) {
      return new Promise((resolve, reject) => {
        waiting.push({ operation, resolve, reject, asked: performance.now() });
        schedule();
      });
    },
  };
}

module.exports = {
  admitOperation,
  benchOperation,
  cancelOperation,
  createPipe,
  liftAllOperation,
  settleOperation,
};
