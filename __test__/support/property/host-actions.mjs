// What the host does in the property test: transactions, SQL of its own, schema changes, closing, restarting.
import assert from 'node:assert/strict';
import { MINUTE } from '../host.mjs';
import { record } from './actions.mjs';
import { compareTables, compareUsage } from './questions.mjs';

/** What may be done to the innermost savepoint, if there is one. */
function savepointSteps(world) {
  const innermost = world.model.saved.length - 1;
  if (innermost === 0 && !world.outermostIsSavepoint) return [];
  return [`RELEASE s${innermost}`, `ROLLBACK TO s${innermost}`];
}

export function transaction(world) {
  if (!world.model.open) return;
  const { model, host, random } = world;
  const depth = model.saved.length;
  const step =
    depth === 0
      ? random.pick(['BEGIN', 'BEGIN', 'BEGIN IMMEDIATE', 'SAVEPOINT s0'])
      : random.pick([
          'COMMIT',
          'COMMIT',
          'ROLLBACK',
          'ROLLBACK',
          `SAVEPOINT s${depth}`,
          `SAVEPOINT s${depth}`,
          ...savepointSteps(world),
        ]);
  world.note(step);
  host.sql(step);
  if (step.startsWith('BEGIN') || step.startsWith('SAVEPOINT')) {
    world.outermostIsSavepoint = depth === 0 ? step.startsWith('SAVEPOINT') : world.outermostIsSavepoint;
    model.begin();
  } else if (step === 'COMMIT') model.commit();
  else if (step === 'ROLLBACK') model.rollback();
  else if (step.startsWith('RELEASE')) model.release();
  else model.rollbackTo();
  if (random.chance(0.2)) compareTables(world);
}

/** Ends whatever transaction is open, so that it does not last for most of the run. */
export function endTransaction(world) {
  if (!world.inTransaction) return;
  const step = world.random.pick(['COMMIT', 'ROLLBACK']);
  world.note(step);
  world.host.sql(step);
  if (step === 'COMMIT') world.model.commit();
  else world.model.rollback();
}

/** The host's own statements on the tables we count, from its connection or, outside a transaction, another one. */
export function hostSql(world) {
  if (!world.model.open) return;
  const { random, model, now } = world;
  const db = !world.inTransaction && random.chance(0.3) ? world.other : world.host.db;
  const [platform, modelId, keyId] = world.route();
  const run = (sql, ...params) => db.prepare(sql).run(...params);
  const where = 'platform = ? AND model_id = ? AND key_id = ?';
  const ofRoute = (row) => row.platform === platform && row.modelId === modelId && row.keyId === keyId;
  const { tables } = model;
  const statements = {
    insert: () => {
      const row = {
        platform,
        modelId,
        keyId,
        kind: random.pick(['request', 'tokens']),
        tokens: random.int(0, 99),
        at: now - random.int(-5000, 2 * MINUTE),
      };
      run(
        'INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)',
        ...Object.values(row),
      );
      tables.usage.push(row);
    },
    remove: () => {
      run(`DELETE FROM rate_limit_usage WHERE ${where}`, platform, modelId, keyId);
      tables.usage = tables.usage.filter((row) => !ofRoute(row));
    },
    update: () => {
      run(
        `UPDATE rate_limit_usage SET tokens = tokens + 7, created_at_ms = created_at_ms - 1000 WHERE ${where}`,
        platform,
        modelId,
        keyId,
      );
      tables.usage = tables.usage.map((row) =>
        ofRoute(row) ? { ...row, tokens: row.tokens + 7, at: row.at - 1000 } : row,
      );
    },
    truncate: () => {
      run('DELETE FROM rate_limit_usage');
      tables.usage = [];
    },
    bench: () => {
      const row = {
        platform,
        modelId,
        keyId,
        expires: now + random.int(-1000, 60_000),
        source: 'heuristic',
        setAt: null,
      };
      run(
        'INSERT OR REPLACE INTO rate_limit_cooldowns (platform, model_id, key_id, expires_at_ms, source, set_at_ms) VALUES (?, ?, ?, ?, ?, ?)',
        ...Object.values(row),
      );
      tables.cooldowns.set(JSON.stringify([platform, modelId, keyId]), row);
    },
    unbench: () => {
      run(`DELETE FROM rate_limit_cooldowns WHERE ${where}`, platform, modelId, keyId);
      tables.cooldowns.delete(JSON.stringify([platform, modelId, keyId]));
    },
  };
  const name = random.weighted({ insert: 10, remove: 3, update: 4, truncate: 0.5, bench: 3, unbench: 3 });
  world.note('host', db === world.other ? 'elsewhere' : 'here', name, platform, modelId, keyId);
  statements[name]();
}

/** Schema changes: none of them may make a count stale or cost the connection. */
export function ddl(world) {
  if (!world.model.open) return;
  const statements = {
    index: 'CREATE INDEX IF NOT EXISTS extra ON rate_limit_usage (created_at_ms)',
    noIndex: 'DROP INDEX IF EXISTS extra',
    table: 'CREATE TABLE IF NOT EXISTS scratch (x)',
    noTable: 'DROP TRIGGER IF EXISTS noting; DROP TABLE IF EXISTS scratch',
    trigger:
      'CREATE TABLE IF NOT EXISTS scratch (x); CREATE TRIGGER IF NOT EXISTS noting AFTER INSERT ON rate_limit_usage BEGIN INSERT INTO scratch VALUES (new.id); END',
    noTrigger: 'DROP TRIGGER IF EXISTS noting',
    analyze: 'ANALYZE',
    version: `PRAGMA user_version = ${world.random.int(0, 99)}`,
    column: `ALTER TABLE rate_limit_usage ADD COLUMN extra${world.extraColumns}`,
    vacuum: 'VACUUM',
    checkpoint: 'PRAGMA wal_checkpoint(TRUNCATE)',
    recreate:
      'DROP TABLE IF EXISTS copied; CREATE TABLE copied AS SELECT * FROM rate_limit_usage; DELETE FROM rate_limit_usage; INSERT INTO rate_limit_usage SELECT * FROM copied',
  };
  const name = world.random.pick(Object.keys(statements));
  if (world.inTransaction && ['vacuum', 'checkpoint'].includes(name)) return;
  if (name === 'column' && (world.inTransaction || world.extraColumns === 20)) return;
  if (name === 'column') world.extraColumns += 1;
  world.note('ddl', name);
  world.host.sql(statements[name]);
}

/** Another journal for the file: what reads the WAL's own memory must notice that it is gone, or back. */
export function switchJournal(world) {
  if (!world.model.open || world.inTransaction) return;
  const journal = world.random.weighted({ WAL: 8, DELETE: 1, TRUNCATE: 1 });
  world.note('journal', journal);
  // SQLite leaves WAL only for the last connection.
  world.other.close();
  world.host.sql(`PRAGMA journal_mode = ${journal}`);
  world.openOther();
}

/** Calls made while a statement of the host is being stepped. */
export function midStatement(world) {
  if (!world.model.open) return;
  world.note('mid-statement');
  for (const row of world.host.db.prepare('SELECT id FROM rate_limit_usage LIMIT 2').iterate()) {
    assert.ok(row.id > 0);
    compareUsage(world);
    record(world);
    compareUsage(world);
  }
}

export function closeOrReopen(world) {
  if (world.model.open) {
    world.gone = world.random.pick(['closed handle', 'nothing']);
    world.note('close', world.gone);
    world.host.close();
    if (world.gone === 'nothing') world.host.db = null;
    world.model.close();
  } else {
    world.note('reopen');
    world.host.open();
    world.model.reopen();
    compareTables(world);
    // better-sqlite3 refuses extensions while it iterates: the connection is taken over before that can happen.
    compareUsage(world);
  }
}

/** From here on the connection refuses to write, as with a full disk; the next time it takes everything again. */
export function refuseOrRelent(world) {
  const { model } = world;
  if (!model.open || world.inTransaction) return;
  model.refuses = !model.refuses;
  world.note(model.refuses ? 'refuse' : 'relent');
  world.host.sql(`PRAGMA query_only = ${model.refuses ? 'ON' : 'OFF'}`);
}

export function restart(world) {
  const fresh = world.random.chance(0.5);
  world.note(fresh ? 'new instance' : 'reset');
  if (fresh) {
    world.core.close();
    world.host.core = world.host.createCore(world.coreOptions);
  } else {
    world.core.reset();
  }
  world.model.forget({ fresh });
}
