// Redis fails in every way that can be staged: no call outlasts its bound, nothing acknowledged is lost or counted twice,
// no secret is told, and the store comes back by itself.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

import { startProxy } from './support/proxy.mjs';
import { startRedis } from './support/redis-server.mjs';
import { runNode } from './support/run-node.mjs';
import { hostDatabase } from './support/share-replayer.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const TIMEOUT = 300;
/** What the bound may be exceeded by on a busy machine. */
const SLACK = 250;
const DIMENSION = { poolId: 'p1', unit: 'requests', window: 'monthly' };
const CHILD = new URL('support/redis-exit-child.mjs', import.meta.url);

function storeOn(t, url, options = {}) {
  const warnings = [];
  const core = createQuotaCore({
    redis: { url, timeoutMs: TIMEOUT },
    env: {},
    logger: { warn: (...parts) => warnings.push(parts.join(' ')) },
    ...options,
  });
  t.after(() => core.close());
  return { core, store: core.getRedisQuotaStore(), warnings };
}

const consume = (store, cost = 1) => store.consume('k1', DIMENSION, cost);

/** Asserts that a call is rejected in time, with one of the codes of a store. */
async function assertFailsInTime(work) {
  const started = performance.now();
  await assert.rejects(work, ({ code, message }) => {
    assert.match(code, /^ERR_QUOTA_STORE_/);
    assert.doesNotMatch(message, /redis:\/\/|127\.0\.0\.1|s3cret/);
    return true;
  });
  const took = performance.now() - started;
  assert.ok(took < TIMEOUT + SLACK, `took ${took} ms`);
}

/** Waits for the first call that works; its value. */
async function recovery(work, within = 4000) {
  const until = performance.now() + within;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > until) throw error;
      await wait(20);
    }
  }
}

test('stopped and started again, with its data and empty', async (t) => {
  const server = await startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const { store } = storeOn(t, server.url);
  assert.equal(await consume(store), 1);
  await server.stop();
  for (let call = 0; call < 5; call += 1) await assertFailsInTime(consume(store));
  await server.start();
  assert.equal(await recovery(() => store.peek('k1', DIMENSION)), 1);
  assert.equal(await consume(store), 2);

  await server.value('FLUSHALL');
  await server.value('SCRIPT', 'FLUSH');
  assert.equal(await consume(store), 1, 'a server that is empty counts from nothing');
});

test('paused: calls fail in time, and work again afterwards', async (t) => {
  const server = await startRedis(t);
  const { store } = storeOn(t, server.url);
  await consume(store);
  server.pause();
  await Promise.all(Array.from({ length: 20 }, () => assertFailsInTime(store.peek('k1', DIMENSION))));
  const started = performance.now();
  await assertFailsInTime(store.peek('k1', DIMENSION));
  assert.ok(performance.now() - started < TIMEOUT, 'nobody waits for a server that is known to be silent');
  server.resume();
  assert.equal(await recovery(() => store.peek('k1', DIMENSION)), 1);
});

test('a server that sleeps in a command', async (t) => {
  const server = await startRedis(t, ['--enable-debug-command', 'yes']);
  const { store } = storeOn(t, server.url);
  await consume(store);
  const asleep = server.value('DEBUG', 'SLEEP', '0.7');
  await wait(50);
  await assertFailsInTime(store.peek('k1', DIMENSION));
  await asleep;
  assert.equal(await recovery(() => store.peek('k1', DIMENSION)), 1);
});

test('killed in the middle of load: what was acknowledged is there once', async (t) => {
  const server = await startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const { store } = storeOn(t, server.url);
  let acknowledged = 0;
  let unknown = 0;
  let running = true;
  const spend = async () => {
    while (running) {
      try {
        await consume(store);
        acknowledged += 1;
      } catch ({ code }) {
        // Sent or not, run or not: only the server knows.
        assert.match(code, /^ERR_QUOTA_STORE_/);
        unknown += 1;
        await wait(5);
      }
    }
  };
  const spenders = Array.from({ length: 20 }, spend);
  for (let round = 0; round < 3; round += 1) {
    await wait(200);
    await server.stop('SIGKILL');
    await server.start();
    await recovery(() => consume(store));
    acknowledged += 1;
  }
  running = false;
  await Promise.all(spenders);
  const counted = await store.peek('k1', DIMENSION);
  t.diagnostic(`${acknowledged} acknowledged, ${counted} counted, ${unknown} failed`);
  assert.ok(acknowledged > 100, `${acknowledged} acknowledged`);
  assert.ok(counted >= acknowledged && counted <= acknowledged + unknown, `${counted} counted`);
  assert.ok(counted - acknowledged <= 60, 'at most what was in flight at each kill is counted without its answer');
});

test('a connection that is cut, and one that goes silent', async (t) => {
  const server = await startRedis(t);
  const proxy = await startProxy(t, server.port);
  const { store } = storeOn(t, proxy.url);
  assert.equal(await consume(store), 1);
  proxy.cut();
  assert.equal(await recovery(() => store.peek('k1', DIMENSION), 500), 1);
  proxy.swallow(true);
  await assertFailsInTime(store.peek('k1', DIMENSION));
  proxy.swallow(false);
  assert.equal(await recovery(() => store.peek('k1', DIMENSION)), 1);
});

test('wrong password, no password, no permission, wrong address', async (t) => {
  const server = await startRedis(t, ['--requirepass', 's3cret']);
  const wrong = storeOn(t, `redis://:s3cret-but-wrong@127.0.0.1:${server.port}`);
  await assertFailsInTime(consume(wrong.store));
  await assert.rejects(consume(wrong.store), { code: 'ERR_QUOTA_STORE_REFUSED', message: /wrong credentials/ });
  const none = storeOn(t, server.url);
  await assertFailsInTime(consume(none.store));
  const right = storeOn(t, `redis://:s3cret@127.0.0.1:${server.port}`);
  assert.equal(await consume(right.store), 1);
  const nobody = storeOn(t, 'redis://127.0.0.1:1');
  await assertFailsInTime(consume(nobody.store));
  const noName = storeOn(t, 'redis://no-such-host.invalid:6379');
  await assertFailsInTime(consume(noName.store));
});

test('enforcement fails open, with one warning each time, and recording tells', async (t) => {
  const server = await startRedis(t);
  const db = hostDatabase();
  t.after(() => db.close());
  const { core, warnings } = storeOn(t, server.url, {
    database: db,
    env: { QUOTA_STORE_DRIVER: 'redis', QUOTA_STORE_REDIS_URL: server.url },
  });
  const dimensions = [
    { unit: 'requests', window: 'hourly', limit: 2 },
    { unit: 'tokens', window: 'daily', limit: 1000 },
  ];
  core.upsertProviderPlan('c1', 'openai', dimensions, 'manual');
  core.createPool({
    connectionIds: ['c1'],
    name: 'p',
    allocations: [{ apiKeyId: 'k1', weight: 100, policy: 'hard' }],
  });
  const request = { apiKeyId: 'k1', connectionId: 'c1', provider: 'openai' };
  const spend = () => core.recordConsumption({ ...request, cost: { requests: 1, tokens: 10 } });
  assert.equal((await core.enforceQuotaShare(request)).kind, 'allow');
  await spend();
  await spend();
  const blocked = await core.enforceQuotaShare(request);
  assert.equal(blocked.kind, 'block');
  assert.deepEqual(warnings, []);

  server.pause();
  assert.equal((await core.enforceQuotaShare(request)).kind, 'allow');
  assert.equal(warnings.length, 1, warnings.join('\n'));
  assert.match(warnings[0], /^quota:enforce/);
  await spend();
  assert.equal(warnings.length, 2);
  assert.match(warnings[1], /^quota:record/);
  assert.doesNotMatch(warnings.join(), /redis:\/\/|127\.0\.0\.1/);
  server.resume();
  await recovery(async () => assert.equal((await core.enforceQuotaShare(request)).kind, 'block'));
});

test('a process ends while it is connected', async (t) => {
  const server = await startRedis(t);
  const started = performance.now();
  const { code, stdout, stderr } = await runNode('redis-exit-child.mjs', [server.url]);
  assert.equal(code, 0, stderr);
  assert.equal(stdout.trim(), 'connected');
  assert.ok(performance.now() - started < 5000);
});

test('worker threads end while connected, by themselves and terminated in the middle of calls', async (t) => {
  const server = await startRedis(t);
  for (let round = 0; round < 6; round += 1) {
    const workers = [false, true, true].map((busy) => {
      const worker = new Worker(CHILD, { workerData: { url: server.url, busy } });
      return { worker, busy, connected: once(worker, 'message'), ended: once(worker, 'exit') };
    });
    for (const { worker, busy, connected, ended } of workers) {
      await connected;
      if (busy) await worker.terminate();
      const [code] = await ended;
      assert.equal(code, busy ? 1 : 0);
    }
  }
});

test('a closed instance takes no more calls; those under way end', async (t) => {
  const server = await startRedis(t);
  const { core, store } = storeOn(t, server.url);
  const underWay = consume(store);
  core.close();
  assert.equal(await underWay, 1);
  assert.throws(() => core.getRedisQuotaStore(), { code: 'ERR_QUOTA_CLOSED' });
  await assert.rejects(consume(store), { code: 'ERR_QUOTA_CLOSED' });
});
