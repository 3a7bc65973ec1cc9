// Counting: sums under concurrency, across processes and kills; which store counts; old counters.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';

import { runNode, startNode } from './support/run-node.mjs';
import { HOUR, limit, START, shareHost } from './support/share-host.mjs';
import { tempFolder } from './support/temp.mjs';

const REQUESTS = { poolId: 'p', unit: 'requests', window: 'hourly' };
const DAY = 24 * HOUR;

for (const count of [50, 5000]) {
  test(`${count} consumes at once give the exact sum`, async (t) => {
    const { store } = shareHost(t);
    const values = await Promise.all(
      Array.from({ length: count }, (_, index) => store.consume(`k${index % 7}`, REQUESTS, index)),
    );
    assert.equal(values.length, count);
    assert.equal(await store.poolConsumedTotal('p', REQUESTS), (count * (count - 1)) / 2);
    const own = Array.from({ length: count }, (_, index) => index).filter((index) => index % 7 === 3);
    assert.equal(
      await store.peek('k3', REQUESTS),
      own.reduce((sum, value) => sum + value, 0),
    );
  });
}

test('two processes that consume at once give the exact sum', async (t) => {
  const file = join(tempFolder(t), 'host.db');
  const { db, store, core } = shareHost(t, { file });
  db.exec('PRAGMA journal_mode = WAL');
  const count = 400;
  const children = [1, 2].map(() => runNode('share-child.mjs', [file, String(count)]));
  let own = 0;
  let running = true;
  const done = Promise.all(children).then((ends) => {
    running = false;
    return ends;
  });
  while (running || own < count) {
    await store.consume('k1', REQUESTS, 1);
    own += 1;
    // What is kept in memory never lags behind what others committed.
    const stored = core.getBucket('k1', 'p:requests:hourly', Math.floor(START / HOUR));
    assert.ok((await store.peek('k1', REQUESTS)) >= stored);
    if (own % 20 === 0) await new Promise(setImmediate);
  }
  for (const { code, stderr } of await done) assert.equal(code, 0, stderr);
  assert.equal(await store.peek('k1', REQUESTS), 2 * count + own);
  assert.equal(await store.poolConsumedTotal('p', REQUESTS), 2 * count + own);
});

test('kill -9 loses no acknowledged consume', async (t) => {
  const file = join(tempFolder(t), 'host.db');
  const { db, store } = shareHost(t, { file });
  db.exec('PRAGMA journal_mode = WAL');
  let acknowledged = 0;
  for (const lifetime of [5, 20, 40, 80]) {
    const child = startNode('share-child.mjs', [file]);
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      if (output === '') setTimeout(() => child.kill('SIGKILL'), lifetime);
      output += text;
    });
    const [, signal] = await once(child, 'close');
    assert.equal(signal, 'SIGKILL');
    // A line that was cut was not acknowledged.
    const lines = output.slice(0, output.lastIndexOf('\n')).split('\n').slice(1);
    acknowledged += lines.length;
    const counted = await store.peek('k1', REQUESTS);
    // One more may have been committed and not acknowledged before the kill.
    assert.ok(counted === acknowledged || counted === acknowledged + 1, `${counted} for ${acknowledged}`);
    acknowledged = counted;
  }
  assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
});

test('a pool of 10 000 keys: enforcement and snapshot ask no question per key', async (t) => {
  const keys = 10_000;
  const weights = Object.fromEntries(Array.from({ length: keys }, (_, index) => [`key-${index}`, 0]));
  const { core, db, store, ask } = shareHost(t, {
    pool: { weights, limits: [limit('requests', 'hourly', keys), limit('tokens', '5h', 1e9)] },
  });
  const bucket = Math.floor(START / HOUR);
  const add = db.prepare('INSERT INTO quota_consumption VALUES (?, ?, ?, ?, ?)');
  db.exec('BEGIN');
  for (let index = 0; index < keys; index += 1) {
    for (const at of [bucket - 1, bucket]) add.run(`key-${index}`, 'p:requests:hourly', at, 0.25, START);
  }
  db.exec('COMMIT');
  const started = process.hrtime.bigint();
  // Equal shares: 1 request each. A quarter is used, so a key may go on, also in the strict mode.
  assert.deepEqual(await ask('key-7'), { kind: 'allow', deprioritize: false });
  await core.recordConsumption({
    apiKeyId: 'key-7',
    connectionId: 'c1',
    provider: 'kimi',
    cost: { tokens: 5, requests: 2 },
  });
  assert.equal((await ask('key-7')).kind, 'allow');
  const usage = await store.poolUsageWithDimensions('p', [limit('requests', 'hourly', keys)]);
  const took = Number(process.hrtime.bigint() - started) / 1e6;
  assert.equal(usage.dimensions[0].perKey.length, keys);
  assert.equal(usage.dimensions[0].perKey.find(({ apiKeyId }) => apiKeyId === 'key-7').consumed > 2, true);
  // A query per key takes well over a second for these; the bound leaves room for a slow machine.
  assert.ok(took < 1000, `${took} ms`);
  const again = process.hrtime.bigint();
  for (let round = 0; round < 100; round += 1) await ask('key-7');
  assert.ok(Number(process.hrtime.bigint() - again) / 1e6 < 500);
});

test('counters that still count survive the collection; recorded: they do not', async (t) => {
  for (const [compat, kept] of [
    ['corrected', 1],
    ['recorded', 0],
  ]) {
    const { core, store, clock } = shareHost(t, { compat });
    const monthly = { poolId: 'p', unit: 'tokens', window: 'monthly' };
    clock.now = 700 * 30 * DAY;
    await store.consume('k1', monthly, 30);
    await store.consume('k1', REQUESTS, 1);
    // 20 days later, in the same month.
    clock.now += 20 * DAY;
    assert.equal(core.collectQuotaGarbage(), 2 - kept);
    assert.equal(await store.peek('k1', monthly), kept * 30);
  }
});

test('old counters are collected in passing, at most once an hour; recorded: never', async (t) => {
  for (const compat of ['corrected', 'recorded']) {
    const { core, db, store, clock, spend } = shareHost(t, {
      compat,
      pool: { limits: [limit('requests', 'hourly', 100)] },
      env: { QUOTA_CONSUMPTION_RETENTION_DAYS: '2' },
    });
    const count = () => db.prepare('SELECT COUNT(*) AS n FROM quota_consumption').get().n;
    await store.consume('k1', REQUESTS, 1);
    clock.now += 3 * DAY;
    await store.consume('k1', REQUESTS, 1);
    assert.equal(count(), compat === 'corrected' ? 1 : 2);
    core.incrementBucket('k9', 'p:requests:hourly', 1, 1, START);
    clock.now += HOUR - 1;
    await spend({});
    assert.equal(count(), compat === 'corrected' ? 3 : 4, 'not yet an hour');
    clock.now += 1;
    await spend({});
    assert.equal(count(), compat === 'corrected' ? 2 : 4);
  }
});

test('drivers: setting, then environment, then SQLite, with a warning where one cannot be had', async (t) => {
  const secret = 'redis://user:hunter2@host';
  const cases = [
    [{}, 0],
    [{ env: { QUOTA_STORE_DRIVER: 'sqlite' } }, 0],
    [{ env: { QUOTA_STORE_DRIVER: 'redis' } }, 1],
    [{ env: { QUOTA_STORE_DRIVER: 'etcd' } }, 1],
    [{ settings: () => ({ 'quotaStore.driver': 'redis' }), env: { QUOTA_STORE_DRIVER: 'sqlite' } }, 1],
    [{ settings: async () => ({ quotaStore: { driver: 'sqlite' } }), env: { QUOTA_STORE_DRIVER: 'redis' } }, 0],
    [
      {
        settings: () => {
          throw new Error('no settings');
        },
      },
      1,
    ],
  ];
  for (const [options, warned] of cases) {
    const { core, warnings } = shareHost(t, options);
    assert.throws(() => core.getQuotaStoreSync(), { code: 'ERR_QUOTA_STORE_NOT_READY' });
    const [store, same] = await Promise.all([core.getQuotaStore(), core.getQuotaStore()]);
    assert.ok(store instanceof core.SqliteQuotaStore);
    assert.equal(store, same);
    assert.equal(core.getQuotaStoreSync(), store);
    assert.deepEqual(
      warnings.map(([tag]) => tag),
      Array(warned).fill('quota:factory'),
    );
    core.resetQuotaStoreSingleton();
    assert.throws(() => core.getQuotaStoreSync(), { code: 'ERR_QUOTA_STORE_NOT_READY' });
  }
  const { core, warnings } = shareHost(t, {
    env: { QUOTA_STORE_DRIVER: 'etcd', QUOTA_STORE_REDIS_URL: secret },
  });
  await core.getQuotaStore();
  assert.equal(JSON.stringify(warnings).includes('hunter2'), false);
});

test("a host's own store counts instead, and is what getQuotaStore gives", async (t) => {
  const calls = [];
  const quotaStore = Object.fromEntries(
    ['consume', 'peek', 'poolConsumedTotal'].map((name) => [
      name,
      async (...args) => {
        calls.push([name, ...args]);
        return 0;
      },
    ]),
  );
  const { core, ask, spend, db } = shareHost(t, {
    quotaStore,
    pool: { limits: [limit('requests', 'hourly', 10), limit('percent', '5h', 100)] },
  });
  assert.equal(await core.getQuotaStore(), quotaStore);
  assert.equal(core.getQuotaStoreSync(), quotaStore);
  core.setModelCap({ poolId: 'p', apiKeyId: 'k1', model: 'm', capValue: 5, capUnit: 'tokens' });
  assert.equal((await ask('k1', { model: 'm' })).kind, 'allow');
  await spend({ tokens: 3 }, 'k1', { model: 'm' });
  const counter = { poolId: 'p', unit: 'requests', window: 'hourly' };
  const model = { poolId: 'p:model:m', unit: 'tokens', window: 'hourly' };
  assert.deepEqual(calls.slice(0, 1), [['peek', 'k1', model]]);
  assert.deepEqual(
    calls.filter(([name]) => name === 'consume'),
    [
      ['consume', 'k1', counter, 1],
      ['consume', 'k1', model, 3],
    ],
  );
  assert.equal(db.prepare('SELECT COUNT(*) AS n FROM quota_consumption').get().n, 0);
});
