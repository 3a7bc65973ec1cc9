// Opens host connections with the SQLite binding under test. Everything the tests use on a connection
// (`exec`, `prepare().all/get/run`, `function`, `close`) has the same shape in both bindings, so only opening differs.
//
// QUOTA_TEST_DRIVER          'better-sqlite3' (default) or 'node:sqlite'
// QUOTA_TEST_BETTER_SQLITE3  path of the better-sqlite3 package to use (default: the project's own)
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export const driverName = process.env.QUOTA_TEST_DRIVER ?? 'better-sqlite3';

/** Path or name of the better-sqlite3 package under test. */
export const betterSqlite3 = process.env.QUOTA_TEST_BETTER_SQLITE3 ?? 'better-sqlite3';

/** Whether the running Node has node:sqlite. */
export function hasNodeSqlite() {
  return process.getBuiltinModule?.('node:sqlite') !== undefined;
}

/** The drivers that can run here, for tests that walk all of them. */
export function availableDrivers() {
  return hasNodeSqlite() ? ['better-sqlite3', 'node:sqlite'] : ['better-sqlite3'];
}

const openers = {
  'better-sqlite3': (file, { readonly }) => {
    const Database = require(betterSqlite3);
    return new Database(file, { readonly });
  },
  'node:sqlite': (file, { readonly }) => {
    const { DatabaseSync } = require('node:sqlite');
    return new DatabaseSync(file, { readOnly: readonly, allowExtension: true });
  },
};

/**
 * A connection as a host opens it: foreign keys on, busy timeout 5 s.
 * @param {string} file path, or ':memory:'
 * @param {{ driver?: string, readonly?: boolean, busyTimeout?: number }} [options]
 */
export function openDatabase(file, { driver = driverName, readonly = false, busyTimeout = 5000 } = {}) {
  const db = openers[driver](file, { readonly });
  db.exec(`PRAGMA foreign_keys = ON; PRAGMA busy_timeout = ${busyTimeout}`);
  return db;
}

/** Whether a connection is open (node:sqlite says so in `isOpen`; its `open` is a method). */
export function isOpen(db) {
  return db.isOpen ?? db.open;
}

/** All rows as plain objects with numbers in them (node:sqlite refuses integers past 2^53 as numbers by itself). */
export function all(db, sql, ...params) {
  const statement = db.prepare(sql);
  statement.setReadBigInts?.(true);
  return statement.all(...params).map((row) => Object.fromEntries(Object.entries(row).map(asNumber)));
}

function asNumber([column, value]) {
  return [column, typeof value === 'bigint' ? Number(value) : value];
}
