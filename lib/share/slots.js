'use strict';

// Concurrency slots of a connection: so many requests at once, the others wait in line. Waiting ends with a slot or with
// null ("go ahead without one"), never with an error: a limit that cannot be kept must not stop the host.

const { invalidArgument } = require('../errors.js');
const { finiteNumber, optionalObject, requireObject, stringOrNone } = require('../args.js');

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_QUEUE = 10_000;

/** A queue from which a waiter in the middle leaves in constant time. */
class Line {
  constructor() {
    this.length = 0;
    this.head = null;
    this.tail = null;
  }

  push(waiter) {
    waiter.before = this.tail;
    waiter.after = null;
    if (this.tail) this.tail.after = waiter;
    else this.head = waiter;
    this.tail = waiter;
    this.length += 1;
  }

  remove(waiter) {
    if (waiter.before) waiter.before.after = waiter.after;
    else this.head = waiter.after;
    if (waiter.after) waiter.after.before = waiter.before;
    else this.tail = waiter.before;
    this.length -= 1;
  }
}

/** The slots of one connection. The cap is the one that was asked for last. */
class Gate {
  constructor(onIdle) {
    this.onIdle = onIdle;
    this.taken = 0;
    this.cap = 0;
    this.line = new Line();
  }

  get hasRoom() {
    return this.taken < this.cap;
  }

  take() {
    this.taken += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.taken -= 1;
      this.admit();
      if (this.taken === 0 && this.line.length === 0) this.onIdle();
    };
  }

  admit() {
    while (this.hasRoom && this.line.head) this.line.head.settle(this.take());
  }

  wait(timeoutMs, signal, onTimeout) {
    return new Promise((resolve) => {
      const waiter = {};
      const give = () => waiter.settle(null);
      const timer = setTimeout(() => {
        give();
        onTimeout();
      }, timeoutMs);
      // Someone who waits for a slot does not keep the process alive.
      timer.unref();
      waiter.settle = (slot) => {
        this.line.remove(waiter);
        clearTimeout(timer);
        resolve(slot);
        quietly(() => signal?.removeEventListener('abort', give));
      };
      this.line.push(waiter);
      quietly(() => signal?.addEventListener('abort', give, { once: true }));
    });
  }

  dismiss() {
    while (this.line.head) this.line.head.settle(null);
  }
}

/** Checked before it is waited for: what fails later, in a timer, would end the process. */
function signalOrNone(value) {
  const signal = optionalObject(value, 'options.signal');
  if (
    signal === undefined ||
    ['addEventListener', 'removeEventListener'].every((name) => typeof signal[name] === 'function')
  )
    return signal;
  throw invalidArgument('options.signal must be an AbortSignal');
}

/** The host's logger may lack a method or throw, and so may its signal: not the waiter's problem. */
function quietly(call) {
  try {
    call();
  } catch {
    // As said.
  }
}

function tell(log, message, details) {
  quietly(() => log?.warn?.('quota:slots', message, details));
}

function createSlots(ctx) {
  let gates = new Map();

  function dismissAll() {
    const old = gates;
    gates = new Map();
    for (const gate of old.values()) gate.dismiss();
  }
  ctx.onReset(dismissAll);
  ctx.onClose(dismissAll);

  function gateOf(connection) {
    const known = gates.get(connection);
    if (known) return known;
    const gate = new Gate(() => {
      if (gates.get(connection) === gate) gates.delete(connection);
    });
    gates.set(connection, gate);
    return gate;
  }

  function limit(value, name, fallback) {
    return value === undefined || value === null ? fallback : Math.max(0, finiteNumber(value, name));
  }

  return {
    async acquireQuotaShareConcurrencySlot(target, cap, options, log) {
      ctx.assertOpen();
      const connection = stringOrNone(requireObject(target, 'target').connectionId, 'target.connectionId');
      const { queueTimeoutMs, maxQueueSize, signal: given } = optionalObject(options, 'options') ?? {};
      const signal = signalOrNone(given);
      // Node's timers run at once for more than 2^31 - 1 ms.
      const timeoutMs = Math.min(limit(queueTimeoutMs, 'options.queueTimeoutMs', DEFAULT_TIMEOUT_MS), 2 ** 31 - 1);
      const longest = limit(maxQueueSize, 'options.maxQueueSize', DEFAULT_QUEUE);
      if (!connection || typeof cap !== 'number' || !Number.isFinite(cap) || cap <= 0) return null;
      if (signal?.aborted) return null;
      const gate = gateOf(connection);
      // A part of a slot is none, but a cap is never below one request.
      gate.cap = ctx.recorded ? cap : Math.max(1, Math.floor(cap));
      gate.admit();
      if (gate.hasRoom) return gate.take();
      if (gate.line.length >= longest) {
        tell(log, 'the queue for a slot is full: going ahead without one', {
          connectionId: connection,
          waiting: longest,
        });
        return null;
      }
      return gate.wait(timeoutMs, signal, () =>
        tell(log, 'no slot in time: going ahead without one', { connectionId: connection, waitedMs: timeoutMs }),
      );
    },
  };
}

module.exports = { createSlots };
