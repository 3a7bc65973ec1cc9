// `ensureQuotaSchema`: creates what is missing, touches nothing that is there.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import { openDatabase } from './support/driver.mjs';
import { hostDatabase } from './support/share-replayer.mjs';
import { tempFolder } from './support/temp.mjs';
import { readTrace } from './support/traces.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../lib/core.js');

const schema = readTrace('quota-share', 'schema');
const tables = Object.keys(schema.create);
const indexes = Object.values(schema.indexes).flatMap((list) => list.map((sql) => /INDEX (\w+)/.exec(sql)[1]));

/** Everything about the shape of the quota tables, as SQLite sees it; the text of a statement is not part of it. */
function shape(db) {
  const rows = (sql) =>
    db
      .prepare(sql)
      .all()
      .map((row) => ({ ...row }));
  return tables.map((table) => ({
    table,
    columns: rows(`PRAGMA table_info(${table})`),
    keys: rows(`PRAGMA foreign_key_list(${table})`),
    indexes: rows(`PRAGMA index_list(${table})`).map(({ name, unique, origin }) => ({
      name,
      unique,
      origin,
      columns: rows(`PRAGMA index_info(${name})`),
    })),
  }));
}

const statements = (db) => db.prepare('SELECT name, sql FROM sqlite_master ORDER BY name').all();

function ensure(t, db) {
  const core = createQuotaCore({ database: db });
  t.after(() => {
    core.close();
    db.close();
  });
  return core.ensureQuotaSchema();
}

test('an empty file gets the tables of the migrated host, and the default group', (t) => {
  const db = openDatabase(join(tempFolder(t), 'empty.db'));
  assert.deepEqual(ensure(t, db).sort(), [...tables, ...indexes].sort());
  const host = hostDatabase();
  t.after(() => host.close());
  assert.deepEqual(shape(db), shape(host));
  assert.deepEqual(
    { ...db.prepare('SELECT id, name FROM quota_groups').get() },
    { id: 'group-demo', name: 'GroupDemo' },
  );
  // Constraints are there, too.
  assert.throws(() => db.exec("INSERT INTO quota_allocations VALUES ('p', 'k', 101, NULL, NULL, 'hard')"), /CHECK/);
  assert.throws(() => db.exec("INSERT INTO quota_allocations VALUES ('p', 'k', 1, NULL, NULL, 'hard')"), /FOREIGN KEY/);
});

test("a full file of the host's stays as it is", (t) => {
  const db = hostDatabase();
  const before = statements(db);
  assert.deepEqual(ensure(t, db), []);
  assert.deepEqual(statements(db), before);
});

test('a file with part of the tables gets the others; its own stay, with their rows', (t) => {
  const db = openDatabase(':memory:');
  db.exec("CREATE TABLE quota_groups (id TEXT, name TEXT, mine TEXT); INSERT INTO quota_groups VALUES ('g', 'G', 'x')");
  db.exec(schema.create.quota_consumption);
  const created = ensure(t, db);
  assert.deepEqual(
    created.filter((name) => tables.includes(name)),
    tables.filter((name) => !['quota_groups', 'quota_consumption'].includes(name)),
  );
  assert.ok(created.includes('idx_quota_consumption_dim_bucket'));
  assert.deepEqual(
    db
      .prepare('SELECT * FROM quota_groups')
      .all()
      .map((row) => ({ ...row })),
    [{ id: 'g', name: 'G', mine: 'x' }],
  );
});

test('twice is once', (t) => {
  const db = openDatabase(':memory:');
  assert.equal(ensure(t, db).length, tables.length + indexes.length);
  const before = statements(db);
  const core = createQuotaCore({ database: db });
  assert.deepEqual(core.ensureQuotaSchema(), []);
  core.close();
  assert.deepEqual(statements(db), before);
});

test('a read-only file passes when nothing is missing, and says so when something is', (t) => {
  const folder = tempFolder(t);
  hostDatabase(join(folder, 'full.db')).close();
  assert.deepEqual(ensure(t, openDatabase(join(folder, 'full.db'), { readonly: true })), []);
  const part = openDatabase(join(folder, 'part.db'));
  part.exec(schema.create.quota_pools);
  part.close();
  assert.throws(() => ensure(t, openDatabase(join(folder, 'part.db'), { readonly: true })), {
    code: 'ERR_QUOTA_DATABASE',
    message: /readonly/,
  });
});

test("inside the host's transaction its rollback undoes it", (t) => {
  const db = openDatabase(':memory:');
  db.exec('BEGIN');
  assert.equal(ensure(t, db).length, tables.length + indexes.length);
  db.exec('ROLLBACK');
  assert.deepEqual(statements(db), []);
});

test('a failure half way leaves nothing behind', (t) => {
  const db = openDatabase(':memory:');
  // A view of that name cannot be indexed.
  db.exec('CREATE VIEW quota_allocation_model_caps AS SELECT 1 AS pool_id, 2 AS api_key_id');
  const before = statements(db);
  assert.throws(() => ensure(t, db), { code: 'ERR_QUOTA_DATABASE' });
  assert.deepEqual(statements(db), before);
});

test('a file of our own has the tables from the start, without the tables of a host', async (t) => {
  const file = join(tempFolder(t), 'own.db');
  const core = createQuotaCore({ database: file, clock: () => 1_790_000_000_000, env: {} });
  t.after(() => core.close());
  assert.deepEqual(core.ensureQuotaSchema(), []);
  const allocations = [{ apiKeyId: 'k', weight: 100, policy: 'hard' }];
  const pool = core.createPool({ connectionId: 'c', connectionIds: ['c', 'd'], name: 'P', allocations });
  core.upsertProviderPlan('c', 'kimi', [{ unit: 'requests', window: 'hourly', limit: 2 }], 'manual');
  const request = { apiKeyId: 'k', connectionId: 'c', provider: 'kimi' };
  for (const requests of [3, 1]) {
    assert.equal((await core.enforceQuotaShare(request)).kind, 'allow');
    await core.recordConsumption({ ...request, cost: { requests } });
  }
  assert.equal((await core.enforceQuotaShare(request)).kind, 'block');
  const usage = await core.getSqliteQuotaStore().poolUsage(pool.id);
  assert.equal(usage.dimensions[0].consumedTotal, 4);
  assert.equal(core.deletePool(pool.id), true);
  assert.deepEqual(core.listPools(), []);
});
