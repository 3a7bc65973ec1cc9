// A host as the tests need it: a database made like a real host's, a clock under control, and an instance on top.
import { join } from 'node:path';
import quotaCore from '../../index.js';
import { all, isOpen, openDatabase } from './driver.mjs';
import { tempFolder } from './temp.mjs';
import { readTrace } from './traces.mjs';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A Tuesday noon UTC: far from midnight, so that a test crosses one only on purpose. */
export const NOON = Date.UTC(2026, 2, 10, 12);

export const noLimits = { rpm: null, rpd: null, tpm: null, tpd: null };

/** The tables of a real, migrated host, as DDL. */
export const hostSchema = readTrace('ratelimit', 'core-random-p1').schemaSql.join(';\n');

/** The same with the three account cap columns on the key row that newer hosts have. */
export const newerHostSchema = readTrace('ratelimit', 'newer-account-limits-p').schemaSql.join(';\n');

/** Makes the host's tables in an open, empty database. */
export function createHostTables(db, schema = hostSchema) {
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF');
  db.exec(schema);
}

export class Host {
  /**
   * @param {import('node:test').TestContext} t
   * @param {{ memory?: boolean, schema?: string, closed?: boolean, driver?: string, core?: object }} [options]
   *   `memory`: a `:memory:` database; `closed`: the host has not opened its database yet; `core`: options of the instance
   */
  constructor(t, { memory = false, schema, closed = false, driver, core = {} } = {}) {
    this.file = memory ? ':memory:' : join(tempFolder(t), 'host.db');
    this.driver = driver;
    this.now = NOON;
    this.env = {};
    this.warnings = [];
    this.db = null;
    if (!memory) this.prepare(schema);
    if (!closed) this.open();
    if (memory) createHostTables(this.db, schema);
    this.core = this.createCore(core);
    t.after(() => {
      this.core.close();
      this.close();
    });
  }

  prepare(schema) {
    const db = openDatabase(this.file, { driver: this.driver });
    createHostTables(db, schema);
    db.close();
  }

  createCore(options) {
    return quotaCore.createQuotaCore({
      database: () => this.db,
      clock: () => this.now,
      env: this.env,
      logger: {
        debug() {},
        info() {},
        warn: (...args) => this.warnings.push(args),
        error: (...args) => this.warnings.push(args),
      },
      ...options,
    });
  }

  open(options = {}) {
    this.db = openDatabase(this.file, { driver: this.driver, ...options });
    this.db.exec('PRAGMA synchronous = OFF');
    return this.db;
  }

  /** Closes the connection and keeps the closed handle, as a host that shuts down does. */
  close() {
    if (this.db !== null && isOpen(this.db)) this.db.close();
  }

  reopen(options) {
    this.close();
    return this.open(options);
  }

  advance(ms) {
    this.now += ms;
  }

  sql(text) {
    this.db.exec(text);
  }

  all(sql, ...params) {
    return all(this.db, sql, ...params);
  }

  value(sql, ...params) {
    return Object.values(this.db.prepare(sql).get(...params))[0];
  }

  addKey(id, platform, fields = {}) {
    this.insert('api_keys', {
      id,
      platform,
      label: `k${id}`,
      encrypted_key: 'x',
      iv: 'x',
      auth_tag: 'x',
      status: 'healthy',
      enabled: 1,
      ...fields,
    });
  }

  addModel(platform, modelId, fields = {}) {
    this.insert('models', {
      platform,
      model_id: modelId,
      display_name: modelId,
      intelligence_rank: 1,
      speed_rank: 1,
      ...fields,
    });
  }

  addUsage(platform, modelId, keyId, kind, tokens, at) {
    this.insert('rate_limit_usage', { platform, model_id: modelId, key_id: keyId, kind, tokens, created_at_ms: at });
  }

  insert(table, fields) {
    const names = Object.keys(fields);
    const marks = names.map(() => '?').join(', ');
    this.db.prepare(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${marks})`).run(...Object.values(fields));
  }
}

/** One host per compatibility mode, for tests that compare the two. */
export function bothModes(t, options = {}) {
  const make = (compat) => new Host(t, { ...options, core: { ...options.core, compat } });
  return { recorded: make('recorded'), corrected: make('corrected') };
}

/** Asks the same of a host in each mode: `{ recorded, corrected }`. */
export function compare(t, ask, options) {
  return Object.fromEntries(Object.entries(bothModes(t, options)).map(([mode, host]) => [mode, ask(host)]));
}
