'use strict';

// A connection in Node's own event loop, for commands that must be fast: an answer changes no thread. It knows one server
// without TLS, and commands that answer with packed doubles. It is opened once the native client was answered, and whatever
// goes wrong with it is that client's to find out about.

const { connect } = require('node:net');

const { binding } = require('../native.js');
const { QuotaCoreError } = require('../errors.js');

const BUFFER_BYTES = 65_536;
/** No answer of these commands comes near it. */
const MAX_ANSWER_BYTES = 2 ** 24;
/** Answered commands that are kept before they are cleared away. */
const MAX_ANSWERED = 1024;
/** Between two attempts to open it. */
const PAUSE_MS = 1000;
const [PLUS, MINUS, DOLLAR, CR] = ['+', '-', '$', '\r'].map((letter) => letter.charCodeAt(0));
const DOUBLE_BYTES = 8;

/** The error of a native answer. */
function failureOf({ code, message }) {
  return new QuotaCoreError(code, message);
}

const broken = () =>
  new QuotaCoreError('ERR_QUOTA_STORE_UNAVAILABLE', 'the Redis server cannot be reached (the connection broke)');

/**
 * @typedef {object} Command
 * @property {(numbers: Float64Array) => void} resolve
 * @property {(error: Error) => void} reject
 * @property {(() => Buffer) | null} whole for a server that does not know the script yet
 * @property {number} until when it must have been answered
 */

/** @param {object} client the native client */
function createWire(client) {
  let socket = null;
  let isOpen = false;
  let isClosed = false;
  let triedAt = Number.NEGATIVE_INFINITY;
  /** Commands without an answer, oldest first; `head` is where they begin. */
  let pending = [];
  let head = 0;
  /** What came of an answer that is not whole yet. */
  let rest = null;
  let timer = null;

  const count = () => pending.length - head;

  function next() {
    const command = pending[head];
    head += 1;
    // Under load there is always another one under way.
    if (head > MAX_ANSWERED) {
      pending = pending.slice(head);
      head = 0;
    }
    return command;
  }

  /** With nothing under way a connection keeps no process alive. */
  function idle() {
    pending = [];
    head = 0;
    socket.unref();
    if (isClosed) drop(broken());
  }

  function drop(error) {
    const lost = pending.slice(head);
    const old = socket;
    pending = [];
    head = 0;
    rest = null;
    socket = null;
    isOpen = false;
    clearTimeout(timer);
    timer = null;
    old?.destroy();
    for (const { reject } of lost) reject(error);
  }

  /** One answer of the bytes from a place on: where the next begins; -1 when it is not whole. */
  function readAnswer(bytes, at) {
    const lineEnd = bytes.indexOf(CR, at);
    if (lineEnd < 0 || lineEnd + 2 > bytes.length) return -1;
    const kind = bytes[at];
    if (kind === DOLLAR) {
      let size = 0;
      for (let digit = at + 1; digit < lineEnd; digit += 1) size = size * 10 + bytes[digit] - 48;
      if (size > MAX_ANSWER_BYTES) throw new RangeError('an answer that is longer than any');
      const [from, to] = [lineEnd + 2, lineEnd + 2 + size];
      if (bytes.length < to + 2) return -1;
      const numbers = new Float64Array(size / DOUBLE_BYTES);
      new Uint8Array(numbers.buffer).set(bytes.subarray(from, to));
      next().resolve(numbers);
      return to + 2;
    }
    if (kind === PLUS) {
      next().resolve();
      return lineEnd + 2;
    }
    if (kind !== MINUS) throw new TypeError('not an answer of these commands');
    answerWithError(bytes.subarray(at, lineEnd));
    return lineEnd + 2;
  }

  function answerWithError(line) {
    const command = next();
    if (command.whole !== null && line.toString('latin1', 0, 9) === '-NOSCRIPT') {
      // It was not run.
      push(command.whole(), { ...command, whole: null });
      return;
    }
    const answer = binding.redisReplyError(line);
    command.reject(failureOf(answer));
    if (answer.ends) end();
  }

  /** The other connection is no better, and is not asked to find out. */
  function end() {
    if (isOpen) client.disconnect();
    drop(broken());
  }

  function read(bytes) {
    let at = 0;
    while (at < bytes.length && count() > 0) {
      const after = readAnswer(bytes, at);
      if (after < 0) break;
      at = after;
    }
    if (socket !== null && count() === 0) idle();
    return at;
  }

  function onRead(size, buffer) {
    const own = socket;
    let bytes = buffer.subarray(0, size);
    if (rest !== null) bytes = Buffer.concat([rest, bytes]);
    try {
      const at = read(bytes);
      if (own !== socket) return true;
      rest = at < bytes.length ? Buffer.from(bytes.subarray(at)) : null;
      // What nobody asked for would be taken for the next answer.
      if (rest !== null && (count() === 0 || rest.length > MAX_ANSWER_BYTES)) drop(broken());
    } catch {
      drop(broken());
    }
    return true;
  }

  function push(bytes, command) {
    if (count() === 0) socket.ref();
    pending.push(command);
    if (timer === null) watch(command.until - performance.now());
    socket.write(bytes);
  }

  /** One timer for all: it looks at the oldest. */
  function watch(ms) {
    timer = setTimeout(() => {
      // What arrived while this process was busy is read first.
      timer = setImmediate(checkOldest);
    }, ms);
    timer.unref();
  }

  function checkOldest() {
    timer = null;
    if (count() === 0) return;
    const left = pending[head].until - performance.now();
    if (left > 0) watch(left);
    // A greeting that takes long is no reason to give the server up.
    else drop(isOpen ? failureOf(client.silent()) : broken());
  }

  function open() {
    if (socket !== null || isClosed || performance.now() - triedAt < PAUSE_MS) return;
    triedAt = performance.now();
    const server = client.plainServer();
    if (server === null) {
      triedAt = Number.POSITIVE_INFINITY;
      return;
    }
    const { host, port, greeting, greetings } = server;
    const made = connect({
      host,
      port,
      noDelay: true,
      onread: { buffer: Buffer.allocUnsafe(BUFFER_BYTES), callback: onRead },
    });
    socket = made;
    made.unref();
    const fail = () => {
      if (made === socket) end();
    };
    made.on('error', fail).on('close', fail);
    made.on('connect', () => {
      let left = greetings;
      const greeted = () => {
        left -= 1;
        if (left <= 0 && made === socket) isOpen = true;
      };
      if (left === 0) return greeted();
      const command = { resolve: greeted, reject: fail, whole: null, until: performance.now() + PAUSE_MS };
      made.ref();
      pending = Array.from({ length: greetings }, () => command);
      watch(PAUSE_MS);
      made.write(greeting);
    });
  }

  return {
    isOpen: () => isOpen,
    open,
    /**
     * @param {(whole: boolean) => Buffer} pack the command; whole for a server that does not know its script
     * @param {number} withinMs
     * @returns {Promise<Float64Array>}
     */
    send(pack, withinMs) {
      return new Promise((resolve, reject) => {
        push(pack(false), { resolve, reject, whole: () => pack(true), until: performance.now() + withinMs });
      });
    },
    /** What is under way still ends. */
    close() {
      isClosed = true;
      if (count() === 0) drop(broken());
    },
  };
}

module.exports = { createWire };
