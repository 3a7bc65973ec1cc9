// The Redis quota store: the recorded runs of the store, keys that it shares with replicas of the host's own driver, and
// the choice of the driver.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { startRedis } from './support/redis-server.mjs';
import { hostDatabase, replayCase } from './support/share-replayer.mjs';
import { readTrace, traceNames } from './support/traces.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const RUNS = traceNames('quota-share').filter((name) => name.startsWith('quota-store-'));
const HOUR = 3_600_000;
const NOW = 1_800_000_000_000;
const HOURLY = { poolId: 'p1', unit: 'requests', window: 'hourly' };

/** An instance on a server, with the warnings it gave. */
function coreOn(t, redis, options = {}) {
  const warnings = [];
  const core = createQuotaCore({
    clock: () => NOW,
    env: {},
    redis,
    logger: { warn: (...parts) => warnings.push(parts.join(' ')) },
    ...options,
  });
  t.after(() => core.close());
  return { core, warnings };
}

test('the recorded runs of the store pass on Redis', async (t) => {
  const server = await startRedis(t);
  let steps = 0;
  for (const suite of RUNS) {
    // Loose runs count infinite costs, which would break the increments of the host's own driver on the same key.
    for (const run of readTrace('quota-share', suite).cases.filter(({ loose }) => !loose)) {
      await server.value('FLUSHALL');
      const storeOf = (core) => core.getRedisQuotaStore();
      steps += await replayCase(run, { storeOf, redis: { url: server.url } });
    }
  }
  t.diagnostic(`${steps} steps`);
});

test('a replica with plain commands and this store count on the same keys', async (t) => {
  const server = await startRedis(t);
  const { core } = coreOn(t, { url: server.url });
  const store = core.getRedisQuotaStore();
  const bucket = Math.floor(NOW / HOUR);
  const key = `omniroute:quota:k1:p1:requests:hourly:${bucket}`;

  assert.equal(await store.consume('k1', HOURLY, 2), 2);
  assert.equal(await server.value('GET', key), '2');
  const expiry = Number(await server.value('PTTL', key));
  assert.ok(expiry > 2 * HOUR - 5000 && expiry <= 2 * HOUR, `expires in ${expiry} ms`);

  await server.value('INCRBYFLOAT', key, '0.5');
  assert.equal(await store.peek('k1', HOURLY), 2.5);
  assert.equal(await store.consume('k1', HOURLY, 0.1), 2.6);
  assert.equal(await server.value('GET', key), '2.6');

  await server.value('SET', `omniroute:quota:k1:p1:requests:hourly:${bucket - 1}`, '100');
  const fading = 100 * (1 - (NOW % HOUR) / HOUR);
  assert.equal(await store.peek('k1', HOURLY), fading + 2.6);
  await store.clear('k1', HOURLY);
  assert.equal(await store.peek('k1', HOURLY), 0);
  assert.equal(await server.value('DBSIZE'), '0');
});

test('totals read every allocated key in one MGET', async (t) => {
  const server = await startRedis(t);
  const db = hostDatabase();
  t.after(() => db.close());
  const { core } = coreOn(t, { url: server.url, keyPrefix: '{team}:' }, { database: db });
  const allocations = Array.from({ length: 40 }, (_, index) => ({
    apiKeyId: `key${index}`,
    weight: 1,
    policy: 'hard',
  }));
  const pool = core.createPool({ connectionIds: ['c1'], name: 'shared', allocations });
  const dimension = { poolId: pool.id, unit: 'tokens', window: 'daily' };
  const store = core.getRedisQuotaStore();
  await Promise.all(allocations.map(({ apiKeyId }, index) => store.consume(apiKeyId, dimension, index)));
  await server.value('CONFIG', 'RESETSTAT');
  assert.equal(await store.poolConsumedTotal(pool.id, dimension), (39 * 40) / 2);
  const stats = await server.value('INFO', 'commandstats');
  assert.match(stats, /cmdstat_mget:calls=1,/);
  assert.doesNotMatch(stats, /cmdstat_get:/);
  assert.equal(
    await server.value('EXISTS', `{team}:quota:key3:${pool.id}:tokens:daily:${Math.floor(NOW / 86_400_000)}`),
    '1',
  );

  const { dimensions } = await store.poolUsageWithDimensions(pool.id, [
    { unit: 'tokens', window: 'daily', limit: 1000 },
  ]);
  assert.equal(dimensions[0].consumedTotal, 780);
  const { consumed, fairShare } = dimensions[0].perKey.find(({ apiKeyId }) => apiKeyId === 'key39');
  assert.deepEqual({ consumed, fairShare }, { consumed: 39, fairShare: 10 });
});

test('50 increments at once from two instances add up', async (t) => {
  const server = await startRedis(t);
  const { core } = coreOn(t, { url: server.url });
  const { core: other } = coreOn(t, { url: server.url });
  const stores = [core.getRedisQuotaStore(), other.getRedisQuotaStore()];
  const values = await Promise.all(Array.from({ length: 50 }, (_, at) => stores[at % 2].consume('k1', HOURLY, 1)));
  assert.deepEqual(
    values.toSorted((a, b) => a - b),
    Array.from({ length: 50 }, (_, at) => at + 1),
  );
  await server.value('SCRIPT', 'FLUSH');
  assert.equal(await stores[0].consume('k1', HOURLY, 1), 51, 'a server that forgot the script gets it again');
});

test('the driver comes from the settings, then the environment', async (t) => {
  const server = await startRedis(t);
  const bySettings = coreOn(t, undefined, {
    settings: async () => ({ quotaStore: { driver: 'redis', redisUrl: server.url } }),
  });
  assert.throws(() => bySettings.core.getQuotaStoreSync(), { code: 'ERR_QUOTA_STORE_NOT_READY' });
  const store = await bySettings.core.getQuotaStore();
  assert.ok(store instanceof bySettings.core.RedisQuotaStore);
  assert.equal(bySettings.core.getQuotaStoreSync(), store);
  bySettings.core.resetQuotaStoreSingleton();
  assert.throws(() => bySettings.core.getQuotaStoreSync());

  const env = { QUOTA_STORE_DRIVER: 'redis', QUOTA_STORE_REDIS_URL: server.url };
  const byEnv = coreOn(t, undefined, { env });
  assert.ok((await byEnv.core.getQuotaStore()) instanceof byEnv.core.RedisQuotaStore);

  const inSqlite = coreOn(t, undefined, { env, settings: () => ({ 'quotaStore.driver': 'sqlite' }) });
  assert.equal(await inSqlite.core.getQuotaStore(), inSqlite.core.getSqliteQuotaStore());
});

test('without a URL or a server, consumption is counted in SQLite and the log says so without secrets', async (t) => {
  const noUrl = coreOn(t, undefined, { env: { QUOTA_STORE_DRIVER: 'redis' } });
  assert.equal(await noUrl.core.getQuotaStore(), noUrl.core.getSqliteQuotaStore());
  assert.match(noUrl.warnings.join('\n'), /quota:factory/);

  const secret = 's3cret-w0rd';
  for (const url of [
    `redis://user:${secret}@127.0.0.1:1/`,
    `nonsense://${secret}`,
    `redis://user:${secret}@[bad`,
    secret,
  ]) {
    const away = coreOn(t, undefined, { env: { QUOTA_STORE_DRIVER: 'redis', QUOTA_STORE_REDIS_URL: url } });
    assert.equal(await away.core.getQuotaStore(), away.core.getSqliteQuotaStore());
    assert.equal(away.warnings.length, 1);
    assert.match(away.warnings[0], /quota:factory/);
    assert.ok(!away.warnings[0].includes(secret), away.warnings[0]);
  }
});

test('options that make no sense are told at once', () => {
  for (const redis of [
    { timeoutMs: 0 },
    { timeoutMs: 'soon' },
    { cluster: true },
    { cluster: 'yes' },
    { nodes: 'redis://x' },
    { sentinel: { nodes: [] } },
    { url: 7 },
    7,
  ]) {
    assert.throws(() => createQuotaCore({ redis }).getRedisQuotaStore('redis://127.0.0.1:1'), {
      code: 'ERR_QUOTA_INVALID_ARGUMENT',
    });
  }
});
