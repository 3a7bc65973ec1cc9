// Moving quota sharing from SQLite to Redis by the commands of docs/operations.md: what was spent before counts after.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { all } from './support/driver.mjs';
import { startRedis } from './support/redis-server.mjs';
import { hostDatabase } from './support/share-replayer.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const DIMENSIONS = ['hourly', 'daily', 'monthly'].map((window) => ({ poolId: 'p1', unit: 'tokens', window }));

/** The statements that docs/operations.md pipes from sqlite3 into redis-cli. */
function documentedStatements() {
  const text = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8');
  return [...text.matchAll(/sqlite3 host\.db "([^"]+)" \| redis-cli/g)].map(([, sql]) => sql);
}

test('the documented commands carry over what SQLite counted, beside what Redis counted since', async (t) => {
  const server = await startRedis(t);
  const db = hostDatabase();
  t.after(() => db.close());
  const before = createQuotaCore({ database: db, env: {} });
  t.after(() => before.close());
  for (const dimension of DIMENSIONS) await before.getSqliteQuotaStore().consume('k1', dimension, 2.5);
  const after = createQuotaCore({ database: db, env: {}, redis: { url: server.url } });
  t.after(() => after.close());
  const store = after.getRedisQuotaStore();
  for (const dimension of DIMENSIONS) await store.consume('k1', dimension, 1);

  const statements = documentedStatements();
  assert.equal(statements.length, 2);
  for (const sql of statements) {
    for (const row of all(db, sql)) await server.value(...Object.values(row)[0].split(' '));
  }
  for (const dimension of DIMENSIONS) assert.equal(await store.peek('k1', dimension), 3.5);
  const keys = await server.value('DBSIZE');
  assert.equal(keys, '3', 'on the keys that replicas count on');
  const bucket = Math.floor(Date.now() / 86_400_000);
  const expiry = Number(await server.value('PTTL', `omniroute:quota:k1:p1:tokens:daily:${bucket}`));
  assert.ok(expiry > 5_183_000_000, 'none is gone before its window is');
});
