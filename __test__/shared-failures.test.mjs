// Shared admission while the server fails in every way that can be staged, over the connection in Node's own event loop: no
// call outlasts its bound, one warning per outage, it comes back by itself, and what was acknowledged is there once.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

import { startProxy } from './support/proxy.mjs';
import { startRedis } from './support/redis-server.mjs';
import { runNode } from './support/run-node.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const TIMEOUT = 300;
/** What the bound may be exceeded by on a busy machine. */
const SLACK = 250;
const NO_LIMITS = { rpm: null, rpd: null, tpm: null, tpd: null };
const REQUEST = { platform: 'groq', modelId: 'm', keyId: 1, limits: NO_LIMITS, estimatedTokens: 10 };
const CHILD = new URL('support/shared-exit-child.mjs', import.meta.url);

/** A replica that admits nothing while Redis is away, connected both ways. */
async function connected(t, url, options = {}) {
  const warnings = [];
  const core = createQuotaCore({
    redis: { url, timeoutMs: TIMEOUT },
    env: {},
    onStoreLoss: 'closed',
    logger: { warn: (...parts) => warnings.push(parts.join(' ')) },
    ...options,
  });
  t.after(() => core.close());
  for (let call = 0; call < 5; call += 1) {
    const { leaseId } = await core.admitShared({ ...REQUEST, keyId: 99 });
    await core.cancelShared(leaseId);
    await wait(10);
  }
  return { core, warnings };
}

/** Whether an admission in time was one by the server. */
async function isAdmitted(core, request = REQUEST) {
  const started = performance.now();
  const { admitted, leaseId, refusals } = await core.admitShared(request);
  const took = performance.now() - started;
  assert.ok(took < TIMEOUT + SLACK, `took ${took} ms`);
  if (admitted) await core.settleShared(leaseId, { tokens: 10 });
  else assert.equal(refusals[0].axis, 'store');
  return admitted;
}

async function recovery(core, within = 4000) {
  const until = performance.now() + within;
  while (!(await isAdmitted(core))) {
    assert.ok(performance.now() < until, 'it does not come back');
    await wait(20);
  }
}

function assertOneWarning(warnings) {
  assert.equal(warnings.length, 1, warnings.join('\n'));
  assert.match(warnings[0], /^quota:redis/);
  assert.doesNotMatch(warnings[0], /redis:\/\/|127\.0\.0\.1|s3cret/);
}

/** What the server has counted on the route. */
async function counted(core) {
  const { refusals } = await core.admitShared({ ...REQUEST, limits: { ...NO_LIMITS, rpd: 0, tpd: 0 } });
  return Object.fromEntries(refusals.map(({ axis, used, inFlight }) => [axis, [used, inFlight]]));
}

test('two connections: one of them with its credentials and its database', async (t) => {
  const server = await startRedis(t, ['--requirepass', 's3cret']);
  const { core, warnings } = await connected(t, `redis://:s3cret@127.0.0.1:${server.port}/3`);
  await core.admitShared(REQUEST);
  const other = createQuotaCore({ env: {}, redis: { url: `redis://:s3cret@127.0.0.1:${server.port}/3` } });
  t.after(() => other.close());
  assert.deepEqual((await counted(other)).rpd, [0, 1]);
  assert.deepEqual((await counted(core)).rpd, [0, 1]);
  assert.deepEqual(warnings, []);
});

test('stopped and started again: refused at once, one warning, back by itself', async (t) => {
  const server = await startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const { core, warnings } = await connected(t, server.url);
  assert.equal(await isAdmitted(core), true);
  await server.stop();
  for (let call = 0; call < 5; call += 1) assert.equal(await isAdmitted(core), false);
  assertOneWarning(warnings);
  await server.start();
  await recovery(core);
  assert.deepEqual((await counted(core)).tpd, [20, 0]);
});

test('restarted while nobody asks: nothing is lost, nobody warned', async (t) => {
  const server = await startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const { core, warnings } = await connected(t, server.url);
  await server.stop();
  await server.start();
  await wait(50);
  assert.equal(await isAdmitted(core), true);
  assert.deepEqual(warnings, []);
  await server.value('FLUSHALL');
  await server.value('SCRIPT', 'FLUSH');
  assert.equal(await isAdmitted(core), true, 'a server that forgot the script gets it again');
  assert.deepEqual((await counted(core)).rpd, [1, 0], 'a server that is empty counts from nothing');
});

test('paused: nobody waits for a server that is known to be silent', async (t) => {
  const server = await startRedis(t);
  const { core, warnings } = await connected(t, server.url);
  server.pause();
  const answers = await Promise.all(Array.from({ length: 300 }, () => isAdmitted(core)));
  assert.ok(!answers.includes(true));
  const started = performance.now();
  assert.equal(await isAdmitted(core), false);
  assert.ok(performance.now() - started < TIMEOUT / 2);
  server.resume();
  await recovery(core);
  assertOneWarning(warnings);
  // What was asked of the silent server was taken after all, and is given back.
  for (let attempt = 0; attempt < 100 && (await counted(core)).rpd[1] > 0; attempt += 1) await wait(20);
  assert.equal((await counted(core)).rpd[1], 0);
});

test('a server that sleeps in a command', async (t) => {
  const server = await startRedis(t, ['--enable-debug-command', 'yes']);
  const { core, warnings } = await connected(t, server.url);
  const asleep = server.value('DEBUG', 'SLEEP', '0.7');
  await wait(50);
  assert.equal(await isAdmitted(core), false);
  await asleep;
  await recovery(core);
  assertOneWarning(warnings);
});

test('killed in the middle of load: what was acknowledged is there once', async (t) => {
  const server = await startRedis(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const { core } = await connected(t, server.url);
  let settled = 0;
  let running = true;
  const work = async () => {
    while (running) {
      const { admitted, leaseId } = await core.admitShared(REQUEST);
      if (!admitted) {
        await wait(5);
      } else if ((await core.settleShared(leaseId, { tokens: 10 })).settled) {
        settled += 1;
      }
    }
  };
  const workers = Array.from({ length: 20 }, work);
  for (let round = 0; round < 3; round += 1) {
    await wait(200);
    await server.stop('SIGKILL');
    await server.start();
    await recovery(core);
    settled += 1;
  }
  running = false;
  await Promise.all(workers);
  for (let attempt = 0; attempt < 100 && (await counted(core)).rpd[1] > 0; attempt += 1) await wait(20);
  const { rpd, tpd } = await counted(core);
  t.diagnostic(`${settled} settled, ${rpd[0]} counted`);
  assert.ok(settled > 100);
  assert.deepEqual(
    [rpd, tpd],
    [
      [settled, 0],
      [settled * 10, 0],
    ],
  );
});

test('a connection that is cut, and one that goes silent', async (t) => {
  const server = await startRedis(t);
  const proxy = await startProxy(t, server.port);
  const { core, warnings } = await connected(t, proxy.url);
  proxy.cut();
  await recovery(core, 500);
  warnings.length = 0;
  await wait(1100);
  await recovery(core);
  proxy.swallow(true);
  assert.equal(await isAdmitted(core), false);
  proxy.swallow(false);
  await recovery(core);
  assertOneWarning(warnings);
});

test('wrong password, wrong address', async (t) => {
  const server = await startRedis(t, ['--requirepass', 's3cret']);
  for (const url of [
    `redis://:s3cret-but-wrong@127.0.0.1:${server.port}`,
    server.url,
    'redis://127.0.0.1:1',
    'redis://no-such-host.invalid:6379',
  ]) {
    const warnings = [];
    const core = createQuotaCore({
      redis: { url, timeoutMs: TIMEOUT },
      env: {},
      onStoreLoss: 'closed',
      logger: { warn: (...parts) => warnings.push(parts.join(' ')) },
    });
    t.after(() => core.close());
    for (let call = 0; call < 3; call += 1) assert.equal(await isAdmitted(core), false);
    assertOneWarning(warnings);
  }
});

test('a password that changes: refused, not hung', async (t) => {
  const server = await startRedis(t, ['--requirepass', 's3cret']);
  const { core, warnings } = await connected(t, `redis://:s3cret@127.0.0.1:${server.port}`);
  await server.stop();
  await server.start(['--requirepass', 'an0ther']);
  for (let call = 0; call < 3; call += 1) assert.equal(await isAdmitted(core), false);
  assertOneWarning(warnings);
});

test('a user with no more than the documented permissions', async (t) => {
  const server = await startRedis(t);
  const permissions = ['+@read', '+@write', '+@scripting', '+@connection', '+time'];
  await server.value('ACL', 'SETUSER', 'gateway', 'on', '>s3cret', '~omniroute:*', ...permissions);
  const { core, warnings } = await connected(t, `redis://gateway:s3cret@127.0.0.1:${server.port}`);
  assert.equal(await isAdmitted(core), true);
  assert.equal((await counted(core)).rpd[0], 1);
  const store = core.getRedisQuotaStore();
  assert.equal(await store.consume('k', { poolId: 'p', unit: 'requests', window: 'hourly' }, 2), 2);
  assert.deepEqual(warnings, []);
});

test('a full server that evicts nothing refuses, and is asked again', async (t) => {
  const server = await startRedis(t, ['--maxmemory-policy', 'noeviction']);
  const { core, warnings } = await connected(t, server.url);
  await server.value('CONFIG', 'SET', 'maxmemory', '1');
  for (let call = 0; call < 3; call += 1) assert.equal(await isAdmitted(core), false);
  const store = core.getRedisQuotaStore();
  const spent = store.consume('k', { poolId: 'p', unit: 'requests', window: 'hourly' }, 2);
  await assert.rejects(spent, { code: 'ERR_QUOTA_STORE_REFUSED' });
  assertOneWarning(warnings);
  await server.value('CONFIG', 'SET', 'maxmemory', '0');
  await recovery(core);
});

test('an answer that waits for a busy process is no loss', async (t) => {
  const server = await startRedis(t);
  const { core, warnings } = await connected(t, server.url);
  const asked = core.admitShared(REQUEST);
  await Promise.resolve();
  const until = performance.now() + 2 * TIMEOUT;
  while (performance.now() < until);
  assert.equal((await asked).admitted, true);
  assert.deepEqual(warnings, []);
});

test('answers of any length arrive whole', async (t) => {
  const server = await startRedis(t);
  const { core } = await connected(t, server.url);
  const clients = await server.value('CLIENT', 'LIST');
  assert.equal(clients.match(/^id=/gm).length, 3, 'the native client, the connection in the event loop, this question');
  const limits = { rpm: 0, rpd: 0, tpm: 0, tpd: 0 };
  const many = Array.from({ length: 1000 }, (_, index) => ({ ...REQUEST, modelId: `m${index}`, limits }));
  const [first, one, second] = await Promise.all([many, REQUEST, many].map((requests) => core.admitShared(requests)));
  assert.equal(one.admitted, true);
  for (const { refusals } of [first, second]) {
    assert.equal(refusals.length, 4000);
    assert.deepEqual([refusals.at(-1).index, refusals.at(-1).axis, refusals.at(-1).never], [999, 'tpd', true]);
  }
});

test('a closed instance takes no more calls; those under way end', async (t) => {
  const server = await startRedis(t);
  const { core } = await connected(t, server.url);
  const underWay = core.admitShared(REQUEST);
  await Promise.resolve();
  core.close();
  assert.equal((await underWay).admitted, true);
  await assert.rejects(core.admitShared(REQUEST), { code: 'ERR_QUOTA_CLOSED' });
});

test('a process ends while it is connected, not before it was answered', async (t) => {
  const server = await startRedis(t);
  const started = performance.now();
  const { code, stdout, stderr } = await runNode('shared-exit-child.mjs', [server.url]);
  assert.equal(code, 0, stderr);
  assert.equal(stdout.trim(), 'connected');
  assert.ok(performance.now() - started < 5000);
});

test('worker threads end while connected, by themselves and terminated in the middle of calls', async (t) => {
  const server = await startRedis(t);
  for (let round = 0; round < 3; round += 1) {
    const workers = [false, true, true].map((busy) => {
      const worker = new Worker(CHILD, { workerData: { url: server.url, busy } });
      return { worker, busy, connected: once(worker, 'message'), ended: once(worker, 'exit') };
    });
    for (const { worker, busy, connected: isConnected, ended } of workers) {
      await isConnected;
      if (busy) await worker.terminate();
      const [code] = await ended;
      assert.equal(code, busy ? 1 : 0);
    }
  }
});
