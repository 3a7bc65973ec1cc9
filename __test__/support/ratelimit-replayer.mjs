// Replays one recorded run of the rate-limit, probe and provider-quota functions against an instance in recorded mode.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { inspect } from 'node:util';
import quotaCore from '../../index.js';
import { all, openDatabase } from './driver.mjs';
import { decode, difference } from './recorded-values.mjs';
import { setSqlClock } from './sql-clock.mjs';

// Table → order of its rows in a run's `final`.
const finalTables = {
  rate_limit_usage: 'id',
  rate_limit_cooldowns: 'platform, model_id, key_id',
  models: 'id',
  api_keys: 'id',
  provider_quota_state: 'platform, key_id, quota_pool_key, metric',
  provider_quota_observations: 'rowid',
};

/**
 * Runs a recorded run from its first step to the rows left in the database; throws an assertion naming the first step
 * that answers differently.
 * @param {object} trace the parsed run
 * @param {string} folder an empty folder for the database file
 */
export async function replay(trace, folder) {
  const replayer = new Replayer(trace, join(folder, 'host.db'));
  try {
    await replayer.run();
  } finally {
    replayer.dispose();
  }
}

class Replayer {
  constructor(trace, file) {
    this.trace = trace;
    this.file = file;
    this.t = trace.steps[0]?.t ?? 0;
    this.env = { TZ: 'UTC', ...trace.env };
    this.db = null;
    this.restarts = 0;
    this.prepareFile();
    if (!trace.startClosed) this.open();
    this.core = this.load();
  }

  prepareFile() {
    const db = openDatabase(this.file);
    db.exec('PRAGMA journal_mode = WAL');
    for (const sql of [...this.trace.schemaSql, ...this.trace.seedSql]) db.exec(sql);
    db.close();
  }

  open() {
    this.db = openDatabase(this.file);
    // The runs check answers, not durability: without this most of the time goes to fsync.
    this.db.exec('PRAGMA synchronous = OFF');
    if (this.trace.sqlNow === 't') setSqlClock(this.db, () => this.t);
    this.isOpen = true;
  }

  close() {
    if (this.isOpen) this.db.close();
    this.isOpen = false;
  }

  load() {
    return quotaCore.createQuotaCore({
      compat: 'recorded',
      database: () => {
        if (this.db === null) throw new Error('the host has not opened its database');
        return this.db;
      },
      clock: () => this.t,
      env: this.env,
    });
  }

  async run() {
    for (const [index, step] of this.trace.steps.entries()) {
      const found = await this.step(step);
      assert.equal(found, null, `step ${index} (t ${step.t}) ${describe(step)}: ${found}`);
    }
    for (const [table, order] of Object.entries(finalTables)) {
      const found = rowsDifference(this.finalRows(table, order), this.trace.final[table], table);
      assert.equal(found, null, `rows left in the database: ${found}`);
    }
  }

  // Steps inside a probe carry no time of their own: they happen at the pass's.
  async step(step) {
    if (step.t !== undefined) this.t = step.t;
    switch (step.op) {
      case 'call':
        return outcomeDifference(await outcome(() => this.call(step)), step.ret);
      case 'probePass':
        return outcomeDifference(await outcome(() => this.probePass(step)), step.ret);
      case 'sql':
        this.db.exec(step.sql);
        return null;
      case 'query':
        return difference(all(this.db, step.sql), step.rows, 'rows');
      case 'env':
        Object.assign(this.env, step.set);
        for (const name of step.unset ?? []) delete this.env[name];
        return null;
      case 'closeDb':
        this.close();
        return null;
      case 'reopenDb':
        this.close();
        this.open();
        return null;
      case 'restart':
        this.restart(step.closed === true);
        return null;
      case 'begin':
      case 'commit':
      case 'rollback':
        this.db.exec(step.op);
        return null;
      default:
        throw new Error(`unknown op ${step.op}`);
    }
  }

  call({ fn, args, context }) {
    const invoke = () => this.core[fn](...decode(args));
    return context ? this.core.runWithQuotaObservationContext(decode(context), invoke) : invoke();
  }

  probePass({ opts, outcomes, during = {} }) {
    const { jitter, ...rest } = decode(opts);
    const values = [jitter].flat();
    let drawn = 0;
    return this.core.runCooldownProbePass({
      ...rest,
      jitter: () => values[drawn++ % values.length],
      probe: async (keyId) => {
        for (const step of during[keyId] ?? []) {
          const found = await this.step(step);
          assert.equal(found, null, `inside the probe of key ${keyId}, ${describe(step)}: ${found}`);
        }
        const result = outcomes[keyId];
        if (result?.$throw !== undefined) throw new Error(result.$throw);
        return result;
      },
    });
  }

  // Both ways of forgetting everything are used in turn: they must come to the same.
  restart(closed) {
    this.close();
    if (this.restarts++ % 2 === 0) {
      this.core.reset();
    } else {
      this.core.close();
      this.core = this.load();
    }
    if (closed) this.db = null;
    else this.open();
  }

  finalRows(table, order) {
    if (!this.isOpen) this.open();
    return all(this.db, `SELECT * FROM ${table} ORDER BY ${order}`);
  }

  dispose() {
    this.core.close();
    this.close();
  }
}

async function outcome(run) {
  try {
    return { value: await run() };
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return { error };
  }
}

function outcomeDifference({ value, error }, recorded) {
  const expected = recorded?.$throws;
  if (error === undefined)
    return expected ? `returned ${inspect(value)}, recorded a throw` : difference(value, recorded);
  if (!expected) return `threw ${inspect(error)}, recorded ${inspect(recorded)}`;
  return difference({ name: error.name, message: error.message }, expected, 'error');
}

// Only the columns that were recorded are compared.
function rowsDifference(actual, recorded, table) {
  const picked = actual.map((row, index) => {
    const columns = Object.keys(recorded[index] ?? row);
    return Object.fromEntries(columns.map((column) => [column, row[column]]));
  });
  return difference(picked, recorded, table);
}

function describe({ op, fn, args }) {
  return op === 'call' ? `${fn}(${args.map((arg) => inspect(decode(arg), { breakLength: Infinity })).join(', ')})` : op;
}
