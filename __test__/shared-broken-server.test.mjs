// A server whose answers make no sense: calls end in time by the policy, nothing is taken for the answer of another call, and
// no error is uncaught. A proxy before a real server breaks what comes back.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startRedis } from './support/redis-server.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const REQUEST = { platform: 'p', modelId: 'm', keyId: 1, limits: { rpm: 1000, rpd: null, tpm: null, tpd: null } };

/** Passes bytes on; `break_` changes what the server says. */
async function startProxy(t, port) {
  const proxy = { change: (bytes) => [bytes] };
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    client.pipe(upstream);
    upstream.on('data', (bytes) => {
      for (const part of proxy.change(bytes)) if (!client.destroyed) client.write(part);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  proxy.url = `redis://127.0.0.1:${server.address().port}`;
  return proxy;
}

const oneByOne = (bytes) => Array.from(bytes, (byte) => Buffer.from([byte]));
const text = (value) => () => [Buffer.from(value)];

test('answers that make no sense', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const core = createQuotaCore({
    env: {},
    redis: { url: proxy.url, timeoutMs: 300 },
    onStoreLoss: 'closed',
    logger: {},
  });
  t.after(() => core.close());
  const works = async () => (await core.admitShared(REQUEST)).admitted;
  const recovers = async () => {
    proxy.change = (bytes) => [bytes];
    const until = Date.now() + 10_000;
    while (!(await works()) && Date.now() < until) await wait(50);
    // Once more over the second connection, which is opened after an answer.
    await wait(50);
    assert.ok(await works());
  };
  await recovers();

  proxy.change = oneByOne;
  for (let turn = 0; turn < 20; turn++) assert.ok(await works(), 'bytes that come one by one are an answer');

  const broken = {
    'a word': text('+OK\r\n'),
    nothing: text('$-1\r\n'),
    'an empty text': text('$0\r\n\r\n'),
    'half a number': text('$4\r\nabcd\r\n'),
    'a count that is none': text(`$8\r\n${'\xff'.repeat(8)}\r\n`),
    'a list': text('*2\r\n:1\r\n:2\r\n'),
    'a length beyond all': text('$99999999999\r\nabc'),
    noise: text('\0\x01\x02 no protocol\r\n\r\n'),
    'an error with noise': text('-\r\n'),
    'an answer and another': (bytes) => [bytes, bytes],
    'half an answer, then silence': (bytes) => [bytes.subarray(0, bytes.length >> 1)],
  };
  for (const [name, change] of Object.entries(broken)) {
    proxy.change = change;
    const started = performance.now();
    const answers = await Promise.all(Array.from({ length: 40 }, () => core.admitShared(REQUEST)));
    assert.ok(performance.now() - started < 3000, `${name}: in time`);
    for (const { admitted, refusals } of answers) {
      if (!admitted) assert.equal(refusals[0]?.axis, 'store', name);
    }
    await recovers();
  }
});
