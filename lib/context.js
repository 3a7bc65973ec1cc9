'use strict';

// What every part of an instance is built from: the clock, the environment, the host's connection, warnings and events.

const { binding, hot } = require('./native.js');
const { QuotaCoreError, invalidArgument } = require('./errors.js');
const { describe, requireFunction, requireString } = require('./args.js');
const { openFile, rawConnection, takeConnection } = require('./connection.js');

const defaultLogger = {
  debug() {},
  info() {},
  warn: (...args) => console.warn(...args),
  error: (...args) => console.error(...args),
};

/** The dates of JavaScript end here; a clock that says more, or NaN, says nothing. */
const LAST_INSTANT = 8.64e15;

const EVENTS = ['cooldown_recovered', 'cooldown_set', 'degraded', 'recovered', 'limit_learned'];

/** Throws unless every option is of its documented type. */
function checkOptions(options) {
  const functions = ['clock', 'random', 'settings', 'probe', 'saturation'];
  for (const name of functions) if (options[name] !== undefined) requireFunction(options[name], `options.${name}`);
  const oneOf = {
    compat: ['corrected', 'recorded'],
    dayWindow: ['utc-day', 'sliding-24h'],
    usageView: ['recorded', 'enforced'],
    onStoreLoss: ['local', 'open', 'closed'],
    leases: ['memory', 'file'],
  };
  for (const [name, values] of Object.entries(oneOf)) {
    if (options[name] !== undefined && !values.includes(options[name])) {
      throw invalidArgument(`options.${name} must be one of ${values.map((value) => `'${value}'`).join(', ')}`);
    }
  }
  for (const name of ['serverLogs', 'index']) {
    if (options[name] !== undefined && typeof options[name] !== 'boolean') {
      throw invalidArgument(`options.${name} must be a boolean, not ${describe(options[name])}`);
    }
  }
  for (const name of ['env', 'logger', 'quotaStore']) {
    const value = options[name];
    if (value !== undefined && (value === null || typeof value !== 'object')) {
      throw invalidArgument(`options.${name} must be an object, not ${describe(value)}`);
    }
  }
}

/**
 * @param {object} options the options of `createQuotaCore`
 */
function createContext(options) {
  checkOptions(options);
  const link = new binding.Link();
  const logger = options.logger ?? defaultLogger;
  const recorded = options.compat === 'recorded';
  const listeners = new Map(EVENTS.map((name) => [name, new Set()]));
  const resetHooks = [];
  const closeHooks = [];
  const inspectHooks = [];
  let closed = false;

  const { clock } = options;
  // Looked up at each call: a test's fake timers replace it.
  const systemNow = () => Date.now();
  const now = clock
    ? () => {
        const value = clock();
        if (typeof value !== 'number')
          throw invalidArgument(`options.clock must return a number, not ${describe(value)}`);
        return recorded || Math.abs(value) <= LAST_INSTANT ? value : systemNow();
      }
    : systemNow;

  const { env } = options;
  const readEnv = env ? () => env : () => process.env;

  function log(level, ...args) {
    try {
      logger[level]?.(...args);
    } catch {
      // A logger that throws must not decide about a request.
    }
    if (options.serverLogs === true && (level === 'warn' || level === 'error')) {
      link.writeServerLog(level, String(args[0]), String(args[1]), systemNow());
    }
  }

  const warn = (tag, message, details) => {
    if (details === undefined) log('warn', tag, message);
    else log('warn', tag, message, details);
  };

  const warnedOnce = new Set();
  function warnOnce(tag, message, details) {
    const key = `${tag}\n${message}`;
    if (warnedOnce.has(key)) return;
    // Messages are ours and few; the bound only guards against one that carries a caller's value.
    if (warnedOnce.size > 1000) warnedOnce.clear();
    warnedOnce.add(key);
    warn(tag, message, details);
  }

  function on(name, listener) {
    const set = listeners.get(requireString(name, 'event'));
    if (!set) throw invalidArgument(`event must be one of ${EVENTS.join(', ')}`);
    requireFunction(listener, 'listener');
    const entry = { listener };
    set.add(entry);
    return () => {
      set.delete(entry);
    };
  }

  function emit(name, payload) {
    for (const { listener } of [...listeners.get(name)]) {
      try {
        listener(payload);
      } catch (error) {
        log('error', `quota:${name}`, 'a listener threw', error);
      }
    }
  }

  /** Passes on what the native parts queued. */
  function drain() {
    if (!link.pending) return;
    for (const { kind, name, text } of link.takeNotices()) {
      if (kind === 'warning') warn(name, text);
      else emit(name, JSON.parse(text));
    }
  }

  const linkNumber = link.number;
  /** Whether the host closed the connection in use; false when there never was one. */
  const isConnectionClosed = () => hot.isLinkClosed(linkNumber) === 1;

  const connection = createConnectionSlot({ options, link, isConnectionClosed, warn: warnOnce, log });

  /** Call first in every function that reads no database. */
  function assertOpen() {
    if (closed) throw new QuotaCoreError('ERR_QUOTA_CLOSED', 'this instance is closed: create another one');
  }

  /** Call first in every function that may read the database: finds the host's current connection. */
  function sync() {
    assertOpen();
    connection.sync();
  }

  function reset() {
    assertOpen();
    for (const hook of resetHooks) hook();
  }

  function close() {
    if (closed) return;
    closed = true;
    for (const hook of closeHooks) hook();
    connection.close();
  }

  return {
    options,
    recorded,
    link,
    now,
    systemNow,
    env: readEnv,
    log,
    warn,
    warnOnce,
    on,
    emit,
    drain,
    assertOpen,
    sync,
    reset,
    close,
    attach: (database) => {
      assertOpen();
      connection.attach(database);
    },
    detach: () => connection.detach(),
    isClosed: () => closed,
    isConnectionClosed,
    onReset: (hook) => resetHooks.push(hook),
    onClose: (hook) => closeHooks.push(hook),
    onInspect: (hook) => inspectHooks.push(hook),
    inspect: () => Object.assign({}, ...inspectHooks.map((hook) => hook())),
  };
}

/** Keeps the link on the connection that the host means right now. */
function createConnectionSlot({ options, link, isConnectionClosed, warn, log }) {
  let provider = null;
  let own = null;
  /**
   * The connection in use: what the provider returned, the connection behind it, and whether that can be opened again (a
   * `DatabaseSync` can: the same object, another handle).
   */
  let current = null;
  /** The provider named a connection that could not be taken over yet. */
  let refused = false;

  /** Uses a connection, or a file of our own by its path. What was used before stays in use when that fails. */
  function take(database) {
    const path = typeof database === 'string';
    const native = path ? openFile(database) : takeConnection(database);
    releaseOwn();
    if (path) own = native;
    link.connect(native);
    refused = false;
    const raw = path ? null : rawConnection(database);
    current = { database, raw, reopens: typeof raw?.isOpen === 'boolean' };
  }

  function releaseOwn() {
    own?.close();
    own = null;
  }

  function lose() {
    if (current === null && !refused) return;
    current = null;
    refused = false;
    releaseOwn();
    link.disconnect();
  }

  /** A connection that the host named once, or a path: failing is the caller's to know. */
  function attach(database) {
    if (typeof database === 'function' && typeof database.loadExtension !== 'function') {
      releaseOwn();
      provider = database;
      current = null;
      link.disconnect();
    } else {
      take(database);
      // Asked again at each call: an adapter may be one object for ever and hold another connection after a reopen.
      provider = () => database;
    }
  }

  function detach() {
    releaseOwn();
    provider = null;
    current = null;
    link.disconnect();
  }

  function sync() {
    if (provider === null) return;
    try {
      const database = provider();
      if (database === undefined || database === null) lose();
      else if (!isCurrent(database)) change(database);
    } catch (error) {
      log('debug', 'quota:attach', 'the database is not there yet', error);
      lose();
    }
  }

  function isCurrent(database) {
    if (current === null || database !== current.database) return false;
    if (typeof database === 'string') return true;
    const { raw, reopens } = current;
    if (database !== raw && rawConnection(database) !== raw) return false;
    return !(reopens && isConnectionClosed() && raw.isOpen);
  }

  function change(database) {
    try {
      take(database);
    } catch (error) {
      lose();
      // Open, but not to be had now: what is recorded meanwhile is written once it is. A closed one is no database.
      refused = error.code !== 'ERR_QUOTA_ATTACH_CLOSED';
      if (refused) link.refuse();
      // A connection that was closed before it was ever used, or is busy in a loop, may be replaced at any call.
      warn('quota:attach', `counting in memory: ${error.message}`, { code: error.code });
    }
  }

  if (options.database !== undefined && options.database !== null) attach(options.database);

  return { sync, attach, detach, close: detach };
}

module.exports = { createContext, EVENTS };
