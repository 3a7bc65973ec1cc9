'use strict';

// Finding the host's SQLite connection and taking it over.
//
// The native file is also a SQLite extension: `loadExtension` on the host's connection makes SQLite call it with the
// handle, and `adopt()` picks the handle up right after. Nothing else may happen in between.

const { QuotaCoreError, fromNative } = require('./errors.js');
const { describe } = require('./args.js');
const { binding, libraryPath } = require('./native.js');

/** Connections taken so far, by the host's own object: taking one twice is cheap and changes nothing. */
const taken = new WeakMap();

/** Adapters may hold adapters; a cycle must end. */
const MAX_ADAPTER_DEPTH = 8;

/** The object with `loadExtension` behind adapters that hold it in `raw`, or null. */
function rawConnection(candidate) {
  let current = candidate;
  for (let depth = 0; depth < MAX_ADAPTER_DEPTH; depth += 1) {
    if (current === null || (typeof current !== 'object' && typeof current !== 'function')) return null;
    if (typeof current.loadExtension === 'function') return current;
    current = current.raw;
  }
  return null;
}

/** better-sqlite3 says `open`, node:sqlite `isOpen`. */
function saysClosed(db) {
  return db.open === false || db.isOpen === false;
}

/**
 * Takes over a host connection.
 *
 * @param {unknown} candidate a better-sqlite3 `Database`, a node:sqlite `DatabaseSync` made with `allowExtension: true`,
 *   or an adapter that holds one in `raw`
 * @returns the native connection
 * @throws {QuotaCoreError} with a code that says what to do
 */
function takeConnection(candidate) {
  const db = rawConnection(candidate);
  if (db === null) {
    throw new QuotaCoreError(
      'ERR_QUOTA_ATTACH_NOT_A_CONNECTION',
      `a SQLite connection is needed, not ${describe(candidate)}: pass a better-sqlite3 Database, a node:sqlite ` +
        'DatabaseSync, or an adapter that holds one of them in `raw`',
    );
  }
  const known = taken.get(db);
  if (known?.open) return known;
  if (saysClosed(db)) {
    throw new QuotaCoreError('ERR_QUOTA_ATTACH_CLOSED', 'the connection is closed: pass an open one');
  }
  binding.expectLoad();
  try {
    db.loadExtension(libraryPath());
  } catch (error) {
    throw new QuotaCoreError(
      'ERR_QUOTA_ATTACH_EXTENSION_REFUSED',
      `the connection does not load extensions (${error?.message ?? error}): with node:sqlite open it with ` +
        '{ allowExtension: true } and without --permission; with better-sqlite3 do not attach inside iterate()',
      { cause: error },
    );
  }
  try {
    const native = binding.adopt();
    taken.set(db, native);
    return native;
  } catch (error) {
    throw fromNative(error);
  }
}

/** Opens a file of our own; its schema is created. */
function openFile(path) {
  try {
    return binding.openFile(path);
  } catch (error) {
    throw fromNative(error);
  }
}

module.exports = { takeConnection, rawConnection, openFile };
