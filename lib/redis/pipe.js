'use strict';

// Operations of shared admission on their way to the server. What is asked while others are under way goes together, in
// order, as one step: the more there is to do, the less each costs.

const { QuotaCoreError } = require('../errors.js');
const { answerOf } = require('./client.js');
const { createWire } = require('./wire.js');

/** Batches under way at a time; more would only make them smaller. */
const MAX_BATCHES = 2;
/** What one step of the server may hold, so that others are not kept waiting. */
const MAX_OPERATIONS = 128;
/** Fewer are not worth a batch of their own. */
const MIN_OPERATIONS = 16;
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
 * An operation: numbers, and the text of its names one after the other; the lengths of names are among the numbers.
 * @typedef {{ text: string, numbers: number[], weight: number }} Operation
 */

/** @typedef {{ platform: string, modelId: string, keyId: number }} Route */
/** @typedef {Route & { block: string, number: number }} Lease the batch that took it, its number there */

/**
 * Takes a lease of the first candidate that passes. `operation.block` and `operation.number` name it once the operation is
 * on its way.
 * Answer: the candidate, or -1 and seven numbers for each refusal (see lua/admission/operations.lua).
 * @returns {Operation}
 */
function admitOperation(candidates) {
  let text = '';
  const numbers = [ADMIT, candidates.length];
  for (const { platform, modelId, keyId, tokens, limits, account, concurrency } of candidates) {
    text += platform + modelId;
    numbers.push(platform.length, modelId.length, keyId, tokens, limits.rpm, limits.rpd, limits.tpm, limits.tpd);
    numbers.push(account.rpm, account.rpd, account.tpd, account.multiplier, concurrency);
  }
  return { text, numbers, weight: candidates.length, block: '', number: 0 };
}

const leaseText = ({ block, platform, modelId }) => block + platform + modelId;
const leaseNumbers = (code, { block, number, platform, modelId, keyId }) => [
  code,
  block.length,
  number,
  platform.length,
  modelId.length,
  keyId,
];

/**
 * Answer: 0 nothing recorded, 1 settled, 2 settled after its end, 3 recorded without a lease; the tokens recorded.
 * @param {Lease} lease
 * @returns {Operation}
 */
function settleOperation(lease, { tokens, requests, multiplier, otherwise }) {
  const numbers = leaseNumbers(SETTLE, lease);
  numbers.push(tokens, requests, multiplier, otherwise);
  return { text: leaseText(lease), numbers, weight: 1 };
}

/**
 * @param {Lease} lease
 * @returns {Operation}
 */
function cancelOperation(lease) {
  return { text: leaseText(lease), numbers: leaseNumbers(CANCEL, lease), weight: 1 };
}

/**
 * @param {Route} route
 * @param {number} durationMs below 0: the bench is lifted
 * @returns {Operation}
 */
function benchOperation({ platform, modelId, keyId }, durationMs, source) {
  const numbers = [BENCH, platform.length, modelId.length, keyId, durationMs, source];
  return { text: platform + modelId, numbers, weight: 1 };
}

/** @returns {Operation} */
function liftAllOperation(keyId) {
  return { text: '', numbers: [LIFT_ALL, keyId], weight: 1 };
}

/** Operations as one text and one array: many small values are what a call into native code is slow with. */
function join(batch, block) {
  let text = '';
  let count = 0;
  for (let number = 0; number < batch.length; number += 1) {
    const { operation } = batch[number];
    operation.block = block;
    operation.number = number;
    text += operation.text;
    count += operation.numbers.length;
  }
  const numbers = new Float64Array(count);
  let at = 0;
  for (const { operation } of batch) {
    for (const number of operation.numbers) {
      numbers[at] = number;
      at += 1;
    }
  }
  return { text, numbers };
}

/** The answer of each operation of a batch: a count, and so many numbers. */
function split(flat, operations) {
  const answers = [];
  let at = 0;
  for (let number = 0; number < operations; number += 1) {
    const count = flat?.[at];
    const end = at + 1 + count;
    if (!Number.isInteger(count) || count < 0 || end > flat.length) {
      throw new QuotaCoreError('ERR_QUOTA_STORE_UNAVAILABLE', 'the Redis server gave an answer that is none');
    }
    answers.push(flat.subarray(at + 1, end));
    at = end;
  }
  return answers;
}

/**
 * @param {() => object} client the native client
 * @param {{ name: string, leaseMs: number, slidingDay: boolean, timeoutMs: number }} options `name`: what batches are named after
 * @param {() => void} answered called after each batch that the server answered
 */
function createPipe(client, { name, leaseMs, slidingDay, timeoutMs }, answered) {
  const waiting = [];
  let sent = 0;
  let wire = null;
  let closed = false;
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

  /** The next operations that make one step: a part for each batch that may go, so that server and process work at once. */
  function take() {
    const part = Math.ceil(waiting.length / (MAX_BATCHES - batches));
    const most = Math.min(Math.max(part, MIN_OPERATIONS), MAX_OPERATIONS);
    let weight = 0;
    let count = 0;
    while (count < waiting.length && count < most) {
      weight += waiting[count].operation.weight;
      if (count > 0 && weight > MAX_CANDIDATES) break;
      count += 1;
    }
    return waiting.splice(0, count);
  }

  async function send(batch) {
    try {
      sent += 1;
      const block = `${name}-${sent.toString(36)}`;
      const { text, numbers } = join(batch, block);
      const native = client();
      if (wire === null && !closed) wire = createWire(native);
      const withinMs = Math.max(timeoutMs - (performance.now() - batch[0].asked), timeoutMs * (1 - WAITING_PART));
      const flat = wire?.isOpen()
        ? await wire.send(
            (whole) => native.admissionCommand(text, numbers, block, leaseMs, slidingDay, whole),
            withinMs,
          )
        : await answerOf(native.admission(text, numbers, block, leaseMs, slidingDay, withinMs));
      const answers = split(flat, batch.length);
      wire?.open();
      for (const [number, { resolve }] of batch.entries()) resolve(answers[number]);
      answered();
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  function flush() {
    scheduled = false;
    dropLate();
    while (waiting.length > 0 && batches < MAX_BATCHES) {
      const batch = take();
      batches += 1;
      send(batch).finally(() => {
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
    /** @returns {Promise<Float64Array>} the operation's answer */
    ask(operation) {
      return new Promise((resolve, reject) => {
        waiting.push({ operation, resolve, reject, asked: performance.now() });
        schedule();
      });
    },
    close() {
      closed = true;
      wire?.close();
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
