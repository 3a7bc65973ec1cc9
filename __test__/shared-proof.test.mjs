// One limit, many processes: never more than the limit, never less when there is demand, whoever is killed.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';

import { startRedis } from './support/redis-server.mjs';
import { startNode } from './support/run-node.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const MINUTE = 60_000;
const NONE = { rpm: null, rpd: null, tpm: null, tpd: null };

/** A replica in a process of its own: what it said, and its end. */
function startReplica(t, options) {
  const child = startNode('shared-child.mjs', [JSON.stringify(options)]);
  t.after(() => child.kill('SIGKILL'));
  const events = [];
  let rest = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    for (const line of lines) events.push(JSON.parse(line));
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const ended = once(child, 'close').then(([code]) => ({ code, errors }));
  return { child, events, ended };
}

/** What the server has counted on an axis of the route that the replicas ask for. */
async function countedOn(t, url, axis) {
  const core = createQuotaCore({ redis: { url }, env: {} });
  t.after(() => core.close());
  const limits = { ...NONE, [axis]: 0 };
  const answer = await core.admitShared({ platform: 'groq', modelId: 'm', keyId: 1, limits, estimatedTokens: 1 });
  const { used, inFlight } = answer.refusals[0];
  return { used, inFlight };
}

const admittedBy = (replicas) => replicas.flatMap(({ events }) => events.filter((event) => event.admitted));

test('6 processes of 3000 requests each on 100 a minute: exactly 100 in each minute', async (t) => {
  const server = await startRedis(t);
  const limits = { ...NONE, rpm: 100 };
  // Requests all through a minute and some seconds of the next.
  const options = { url: server.url, limits, count: 3000, everyMs: 21.5 };
  const replicas = Array.from({ length: 6 }, () => startReplica(t, options));
  for (const { ended } of replicas) {
    const { code, errors } = await ended;
    assert.equal(code, 0, errors);
    assert.equal(errors, '');
  }
  const events = replicas.flatMap((replica) => replica.events);
  const admitted = events.filter((event) => event.admitted).map((event) => event.admitted);
  const settling = events.filter((event) => event.settling).map((event) => event.settling);
  admitted.sort((a, b) => a - b);
  settling.sort((a, b) => a - b);
  assert.equal(admitted.length + events.filter(({ refused }) => refused).length, 6 * 3000, 'every request is answered');
  assert.equal(events.filter(({ settled }) => settled).length, admitted.length, 'every lease is settled');

  const first = admitted.filter((at) => at < admitted[0] + MINUTE - 1);
  const second = admitted.filter((at) => at >= admitted[0] + MINUTE - 1);
  t.diagnostic(
    `${first.length} in the first minute, ${second.length} in the rest of ${admitted.at(-1) - admitted[0]} ms`,
  );
  assert.equal(first.length, 100);
  assert.equal(second.length, 100);
  // Whatever minute one looks at: a request that was settled at t is not followed by a hundredth one before t + 60 s. The
  // server's clock is read between ours before the settlement and ours after the admission; both are whole milliseconds.
  for (let index = 0; index + 100 < admitted.length; index += 1) {
    assert.ok(admitted[index + 100] >= settling[index] + MINUTE - 1, `101 within a minute of ${settling[index]}`);
  }
  assert.deepEqual(await countedOn(t, server.url, 'rpd'), { used: 200, inFlight: 0 });
});

test('replicas that are killed: their leases come back, nothing else does', async (t) => {
  const server = await startRedis(t);
  const limits = { ...NONE, rpm: 100 };
  const shared = { url: server.url, limits, leaseMs: 2000 };
  const victims = [30, 25].map((count) => startReplica(t, { ...shared, count, everyMs: 5, hang: true }));
  while (admittedBy(victims).length < 55) await wait(10);
  for (const { child } of victims) child.kill('SIGKILL');
  const killedAt = Date.now();

  const others = Array.from({ length: 4 }, () => startReplica(t, { ...shared, count: 400, everyMs: 10, holdMs: 20 }));
  for (const { ended } of others) assert.equal((await ended).errors, '');
  const at = admittedBy(others).map((event) => event.admitted);
  const early = at.filter((time) => time < killedAt + 1500);
  t.diagnostic(`55 leases lost, ${early.length} admitted beside them, ${at.length} in all`);
  assert.equal(early.length, 45, 'leases of the killed count until their age');
  assert.equal(at.length, 100);
  assert.deepEqual(await countedOn(t, server.url, 'rpm'), { used: 100, inFlight: 0 });
});

test('tokens: reserved by estimate, settled by use, the rest given back', async (t) => {
  const server = await startRedis(t);
  const limits = { ...NONE, tpm: 10_000 };
  const options = { url: server.url, limits, estimatedTokens: 100, tokens: 60, count: 300, everyMs: 5, holdMs: 30 };
  const replicas = Array.from({ length: 4 }, () => startReplica(t, options));
  for (const { ended } of replicas) assert.equal((await ended).errors, '');
  const count = admittedBy(replicas).length;
  const { used, inFlight } = await countedOn(t, server.url, 'tpm');
  t.diagnostic(`${count} admitted, ${used} tokens`);
  assert.equal(used, count * 60);
  assert.equal(inFlight, 0);
  assert.ok(used <= 10_000 && used + 100 > 10_000, `${used} tokens used of 10000`);
});
