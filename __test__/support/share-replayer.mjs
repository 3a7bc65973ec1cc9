// Replays the recorded runs of quota sharing (traces/quota-share/FORMAT.md says how they read) on an instance of this
// package: on its built-in store, or through a store object as a host would pass it.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { setImmediate as turn } from 'node:timers/promises';

import { all, openDatabase } from './driver.mjs';
import { decode, difference } from './recorded-values.mjs';
import { readTrace } from './traces.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../../lib/core.js');

const schema = readTrace('quota-share', 'schema');
const OBSERVED = ['combos', 'webhooks', 'sat', 'fetches'];
const STORE_METHODS = ['consume', 'peek', 'poolConsumedTotal', 'poolUsage', 'poolUsageWithDimensions', 'clear'];
/** Functions of a store; the others are functions of the instance. */
const onStore = new Set(STORE_METHODS);

const ORDER = {
  quota_consumption: 'api_key_id, dimension_key, bucket_index',
  provider_plans: 'connection_id',
  quota_allocation_model_caps: 'pool_id, api_key_id, model',
  api_keys: 'id',
};

/** A database with the host's migrated tables and base rows. */
export function hostDatabase(file = ':memory:') {
  const db = openDatabase(file);
  const statements = [
    ...Object.values(schema.create),
    ...Object.values(schema.indexes).flat(),
    ...Object.values(schema.minimalHostTables),
    ...Object.values(schema.createIndexesOnHostTables).flat(),
  ];
  for (const statement of statements) db.exec(statement);
  insert(db, schema.baseRows);
  return db;
}

export function insert(db, tables) {
  for (const [table, rows] of Object.entries(tables)) {
    for (const row of rows) {
      const columns = Object.keys(row);
      const places = columns.map(() => '?').join(', ');
      db.prepare(`INSERT INTO ${table} (${columns.join(', ')}) VALUES (${places})`).run(...Object.values(row));
    }
  }
}

/** Replaces the ids and concatenations that depend on earlier steps, in arguments and in what was recorded. */
function resolve(value, refs) {
  if (Array.isArray(value)) return value.map((item) => resolve(item, refs));
  if (value === null || typeof value !== 'object') return value;
  if ('$ref' in value) return refs.get(value.$ref);
  if ('$cat' in value) return value.$cat.map((part) => resolve(part, refs)).join('');
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item, refs)]));
}

function dumpDifference(db, dump) {
  for (const [table, recorded] of Object.entries(dump ?? {})) {
    const columns = recorded.length > 0 ? Object.keys(recorded[0]).join(', ') : '*';
    const rows = all(db, `SELECT ${columns} FROM ${table} ORDER BY ${ORDER[table] ?? 'rowid'}`);
    const found = difference(rows, recorded, table);
    if (found) return found;
  }
  return null;
}

const sqliteStore = (core) => core.getSqliteQuotaStore();

/** The store as a host's own object: it forwards, and fails where the run says so. */
function hostStore(store, faults) {
  return Object.fromEntries(
    STORE_METHODS.map((name) => [
      name,
      async (...args) => {
        if (faults.has(name)) throw new Error(`${name} is down`);
        return store[name](...args);
      },
    ]),
  );
}

/** What the instance asked and told while a step ran. */
function createObserver() {
  const seen = Object.fromEntries(OBSERVED.map((name) => [name, []]));
  const plans = new Map();
  let signals = new Map();
  const fetcher =
    (name) =>
    async (...args) => {
      seen.fetches.push([name, ...args.map((arg) => arg?.id ?? arg)]);
      const plan = plans.get(name);
      if (plan && 'throw' in plan) throw new Error(plan.throw);
      return plan ? plan.return : null;
    };
  return {
    seen,
    plans,
    fetchers: Object.fromEntries(
      ['generic', 'loadConnection', 'fetchUsage', 'codex', 'bailian'].map((name) => [name, fetcher(name)]),
    ),
    async saturation(connectionId, provider, { unit, window }) {
      seen.sat.push([connectionId, provider, unit, window]);
      const value = signals.get([connectionId, unit, window].join('\n')) ?? 0;
      if (typeof value === 'object') throw new Error(value.throw);
      return value;
    },
    begin(step) {
      for (const name of OBSERVED) seen[name].length = 0;
      const given = decode(step.sat ?? []);
      signals = new Map(
        given.map(([connectionId, unit, window, value]) => [[connectionId, unit, window].join('\n'), value]),
      );
    },
  };
}

/** Over a network, calls that are started together have no order: this is the one that was recorded. */
async function readersFirst(calls, run) {
  const results = [];
  const isReader = ([name]) => name.startsWith('peek') || name.startsWith('pool');
  for (const first of [true, false]) {
    for (const [index, call] of calls.entries()) {
      const [name, ...args] = call;
      if (isReader(call) === first) results[index] = await run(name, args);
    }
  }
  return results;
}

/** The helper steps of the runs (names with `$`, and one function whose recorded result is a helper's). */
function createHelpers({ core, storeOf, db, observer, faults, targets, selections }) {
  const candidates = [];
  const flags = () => candidates.map((candidate) => candidate.quotaSoftPenalty);
  return {
    $sql: (text, ...params) => {
      if (params.length > 0 || !text.startsWith('PRAGMA')) db.prepare(text).run(...params);
      else db.exec(text);
    },
    $parallel: (...calls) =>
      storeOf === sqliteStore
        ? Promise.all(calls.map(([name, ...args]) => storeOf(core)[name](...args)))
        : readersFirst(calls, (name, args) => storeOf(core)[name](...args)),
    $stub: (name, plan) => void observer.plans.set(name, plan),
    $storeFault(names) {
      faults.clear();
      for (const name of names) faults.add(name);
    },
    $select(indexes, combo, model, now, caps) {
      const chosen = indexes.map((index) => targets[index]);
      const selection = core.selectQuotaShareTarget(chosen, combo, model, now, { maxConcurrentByConnection: caps });
      const { drr } = core.inspect();
      const order = [];
      for (const target of selection.orderedTargets) {
        order.push(chosen.findIndex((other, at) => other === target && !order.includes(at)));
      }
      selections.latest = selection;
      return {
        target: selection.target?.executionKey ?? null,
        order,
        deficits: chosen.map(({ executionKey }) => drr[combo]?.[executionKey] ?? 0),
      };
    },
    $release: (as) => selections.byName.get(as).decrementInflight(),
    $deficit: (combo, key) => core.inspect().drr[combo]?.[key] ?? 0,
    $buckets: () => core.inspect().accountBuckets,
    $inflightSize: () => core.inspect().inflightConnections,
    $softFactor: () => core.applySoftPenalty(1, true),
    $registerCandidates(list) {
      candidates.push(...list);
      core.registerExecutionCandidates(list);
      return flags();
    },
    $unregisterCandidates(keys) {
      core.unregisterExecutionCandidates(keys);
      return flags();
    },
    setCandidateQuotaSoftPenalty(...args) {
      core.setCandidateQuotaSoftPenalty(...args);
      return flags();
    },
    async $streaming({ calc, ...params }) {
      const scheduled = [];
      const calculateCostCalls = [];
      await core.recordStreamingConsumption(params, {
        calculateCost: async (...args) => {
          calculateCostCalls.push(args);
          if (typeof calc === 'object' && 'throw' in calc) throw new Error(calc.throw);
          return calc.return;
        },
        scheduleRecordConsumption: (input) => void scheduled.push(input),
      });
      return { scheduled, calculateCostCalls };
    },
  };
}

function throwsDifference(error, { contains, kind, code }, isSqlite) {
  if (error === null) return 'it did not throw';
  if (kind === 'sqlite' && !isSqlite) return null;
  if (kind === 'js') return error instanceof TypeError || error instanceof RangeError ? null : `threw ${error}`;
  if (kind === 'sqlite') {
    const constraint = code.startsWith('SQLITE_CONSTRAINT') === /constraint failed/i.test(error.message);
    return constraint ? null : `threw ${error}, recorded ${code}`;
  }
  return contains.every((part) => error.message.includes(part)) ? null : `threw ${error}, recorded ${contains}`;
}

/**
 * Replays one case.
 * @param {object} run the recorded case
 * @param {{ store?: 'built-in' | 'host', ownSignal?: boolean, storeOf?: Function, redis?: object }} [options] `host`: enforcement and recording go through an
 *   object; `ownSignal`: the run gives the saturation signal itself (the enforcement runs); `storeOf`: the store that the
 *   store functions of the run are called on, when it is not the one in the database (whose tables are then not compared)
 * @returns {Promise<number>} how many steps were compared
 */
export async function replayCase(run, { store = 'built-in', ownSignal = false, storeOf = sqliteStore, redis } = {}) {
  const compareRows = storeOf === sqliteStore;
  const db = hostDatabase();
  for (const table of schema.resetTables) if (table in (run.seed ?? {})) db.exec(`DELETE FROM ${table}`);
  insert(db, decode(run.seed ?? {}));
  const clock = { now: run.t0 ?? 0 };
  const observer = createObserver();
  const faults = new Set();
  const options = {
    database: db,
    compat: 'recorded',
    clock: () => clock.now,
    env: run.env ?? {},
    redis,
    logger: { warn() {} },
  };
  const counting = createQuotaCore(options);
  const core = createQuotaCore({
    ...options,
    ...(ownSignal ? { saturation: observer.saturation } : {}),
    ...(store === 'host' ? { quotaStore: hostStore(counting.getSqliteQuotaStore(), faults) } : {}),
  });
  core.onPoolChanged((id) => observer.seen.combos.push(['syncQuotaCombos', id]));
  core.onPoolRemoved((id) => observer.seen.combos.push(['removeQuotaCombosForPool', id]));
  core.onQuotaExceeded((event) => observer.seen.webhooks.push(['quota.exceeded', event]));
  core.setSaturationFetchers(observer.fetchers);
  const refs = new Map();
  const selections = { latest: null, byName: new Map() };
  const helpers = createHelpers({
    core,
    storeOf,
    db,
    observer,
    faults,
    targets: decode(run.targets ?? []),
    selections,
  });

  for (const [index, step] of run.steps.entries()) {
    const at = `${run.name}, step ${index}: ${step.fn}`;
    if (step.t !== undefined) clock.now = step.t;
    observer.begin(step);
    const args = step.args.map((arg) => decode(resolve(arg, refs)));
    const callee = onStore.has(step.fn) ? storeOf(core) : core;
    const call = helpers[step.fn] ?? callee[step.fn];
    assert.equal(typeof call, 'function', at);
    let error = null;
    let result;
    try {
      result = await call.apply(callee, args);
    } catch (caught) {
      if (!('throws' in step)) throw new Error(at, { cause: caught });
      error = caught;
    }
    if (step.as !== undefined && result?.id !== undefined) refs.set(step.as, result.id);
    if (step.fn === '$select') selections.byName.set(step.as, selections.latest);
    await turn();
    if ('throws' in step) assert.equal(throwsDifference(error, step.throws, compareRows), null, at);
    else if ('ret' in step) assert.equal(difference(result, resolve(step.ret, refs)), null, at);
    const log = resolve(step.log ?? {}, refs);
    for (const name of OBSERVED) assert.equal(difference(observer.seen[name], log[name] ?? [], name), null, at);
    if (compareRows) assert.equal(dumpDifference(db, log.dump), null, at);
  }
  if (compareRows) assert.equal(dumpDifference(db, resolve(run.dump, refs)), null, `${run.name}: at the end`);
  core.close();
  counting.close();
  db.close();
  return run.steps.length;
}
