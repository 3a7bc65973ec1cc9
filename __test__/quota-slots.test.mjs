// Concurrency slots: first in, first out; every way out of the line; nothing left behind.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { schedInstance } from './support/sched-instance.mjs';

// The timers under test are unref'd: something else has to keep this process waiting for them.
const alive = setInterval(() => {}, 1000);
after(() => clearInterval(alive));

const target = { connectionId: 'c' };
const patient = { queueTimeoutMs: 60_000, maxQueueSize: 20_000 };

/** Settled value of a promise, or `waiting`. */
const now = (promise) => Promise.race([promise, sleep(5, 'waiting')]);

test('no cap and no connection need no slot', async () => {
  const core = schedInstance();
  for (const cap of [null, undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, '3']) {
    assert.equal(await core.acquireQuotaShareConcurrencySlot(target, cap), null);
  }
  for (const connectionId of [null, undefined, '']) {
    assert.equal(await core.acquireQuotaShareConcurrencySlot({ connectionId }, 1), null);
  }
});

test('waiters are served in the order they came, per connection', async () => {
  const core = schedInstance();
  const first = await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  const served = [];
  const releases = [1, 2, 3].map(async (name) => {
    const release = await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
    served.push(name);
    return release;
  });
  const other = await core.acquireQuotaShareConcurrencySlot({ connectionId: 'other' }, 1, patient);
  assert.equal(typeof other, 'function');
  first();
  for (const release of releases) (await release)();
  assert.deepEqual(served, [1, 2, 3]);
});

test('a slot is given back once', async () => {
  const core = schedInstance();
  const [a, b] = [
    await core.acquireQuotaShareConcurrencySlot(target, 2),
    await core.acquireQuotaShareConcurrencySlot(target, 2),
  ];
  a();
  a();
  const third = await core.acquireQuotaShareConcurrencySlot(target, 2, patient);
  assert.equal(typeof third, 'function');
  assert.equal(await now(core.acquireQuotaShareConcurrencySlot(target, 2, patient)), 'waiting');
  b();
  core.reset();
});

test('a timeout, a full queue and an abort give null, a line for the log, and leave nothing behind', async () => {
  const core = schedInstance();
  const lines = [];
  const log = { warn: (tag, message, details) => lines.push([tag, message, details.connectionId]) };
  const held = await core.acquireQuotaShareConcurrencySlot(target, 1);
  const abort = new AbortController();
  const timedOut = core.acquireQuotaShareConcurrencySlot(target, 1, { queueTimeoutMs: 10, maxQueueSize: 2 }, log);
  const aborted = core.acquireQuotaShareConcurrencySlot(target, 1, { ...patient, signal: abort.signal }, log);
  assert.equal(await core.acquireQuotaShareConcurrencySlot(target, 1, { maxQueueSize: 2 }, log), null);
  abort.abort();
  assert.equal(await aborted, null);
  assert.equal(await timedOut, null);
  assert.equal(await core.acquireQuotaShareConcurrencySlot(target, 1, { signal: abort.signal }), null);
  assert.deepEqual(
    lines.map(([tag, , connection]) => [tag, connection]),
    [
      ['quota:slots', 'c'],
      ['quota:slots', 'c'],
    ],
  );
  held();
  const next = await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  assert.equal(typeof next, 'function', 'the slot is free: nobody who left took it');
});

test('a logger that throws does not reach the waiter', async () => {
  const core = schedInstance();
  await core.acquireQuotaShareConcurrencySlot(target, 1);
  const log = {
    warn() {
      throw new Error('full disk');
    },
  };
  assert.equal(await core.acquireQuotaShareConcurrencySlot(target, 1, { maxQueueSize: 0 }, log), null);
  assert.equal(await core.acquireQuotaShareConcurrencySlot(target, 1, { queueTimeoutMs: 1 }, log), null);
});

test('a raised cap admits those who wait before those who come', async () => {
  const core = schedInstance();
  await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  const waiting = core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  const late = core.acquireQuotaShareConcurrencySlot(target, 2, patient);
  assert.equal(typeof (await now(waiting)), 'function');
  assert.equal(await now(late), 'waiting');
  core.reset();
  assert.equal(await late, null);
});

test('ten thousand waiters: in order, some leaving, and quickly', async () => {
  const core = schedInstance();
  const started = process.hrtime.bigint();
  const first = await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  const served = [];
  const aborts = [];
  const waiters = Array.from({ length: 10_000 }, async (_, index) => {
    const abort = index % 3 === 0 ? new AbortController() : undefined;
    if (abort) aborts.push(abort);
    const release = await core.acquireQuotaShareConcurrencySlot(target, 1, { ...patient, signal: abort?.signal });
    if (release) served.push(index);
    release?.();
  });
  // The last ones leave first: from the middle of the line, not from its head.
  for (const abort of aborts.reverse()) abort.abort();
  first();
  await Promise.all(waiters);
  assert.deepEqual(
    served,
    Array.from({ length: 10_000 }, (_, index) => index).filter((index) => index % 3 !== 0),
  );
  const again = await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  assert.equal(typeof again, 'function');
  const ms = Number(process.hrtime.bigint() - started) / 1e6;
  assert.ok(ms < 5000, `${ms} ms`);
});

test('reset lets everyone go, and what was taken before it counts no more', async () => {
  const core = schedInstance();
  const before = await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  const waiting = core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  core.reset();
  assert.equal(await waiting, null);
  await core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  before();
  assert.equal(await now(core.acquireQuotaShareConcurrencySlot(target, 1, patient)), 'waiting');
  core.close();
});

test('waiting does not keep the process alive', () => {
  const support = new URL('./support/sched-instance.mjs', import.meta.url).href;
  const script = `
    const { schedInstance } = await import(${JSON.stringify(support)});
    const core = schedInstance();
    await core.acquireQuotaShareConcurrencySlot({ connectionId: 'c' }, 1);
    core.acquireQuotaShareConcurrencySlot({ connectionId: 'c' }, 1, { queueTimeoutMs: 600000 });
    console.log('waiting');`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { timeout: 30_000 });
  assert.equal(String(output).trim(), 'waiting');
});

test('wrong arguments reject', async () => {
  const core = schedInstance();
  const wrong = [
    [null, 1],
    ['c', 1],
    [{ connectionId: 5 }, 1],
    [target, 1, 'soon'],
    [target, 1, { queueTimeoutMs: Number.NaN }],
    [target, 1, { maxQueueSize: '9' }],
  ];
  for (const args of wrong) {
    await assert.rejects(core.acquireQuotaShareConcurrencySlot(...args), {
      name: 'TypeError',
      code: 'ERR_QUOTA_INVALID_ARGUMENT',
    });
  }
});

test('a signal that is none is refused; one that throws is a signal that never comes', async () => {
  const core = schedInstance();
  const release = await core.acquireQuotaShareConcurrencySlot(target, 1);
  const fail = () => {
    throw new Error('a signal that fails');
  };
  for (const signal of [5, 'x', {}, { aborted: false, addEventListener() {} }]) {
    const wait = core.acquireQuotaShareConcurrencySlot(target, 1, { queueTimeoutMs: 1, signal });
    await assert.rejects(wait, { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
  }
  for (const own of [{ addEventListener: fail }, { removeEventListener: fail }]) {
    const signal = { aborted: false, addEventListener() {}, removeEventListener() {}, ...own };
    assert.equal(await core.acquireQuotaShareConcurrencySlot(target, 1, { queueTimeoutMs: 1, signal }), null);
  }
  const next = core.acquireQuotaShareConcurrencySlot(target, 1, patient);
  release();
  assert.equal(typeof (await next), 'function');
});

test('a part of a slot is none', async () => {
  const core = schedInstance();
  for (const [connectionId, cap] of [
    ['whole', 1.5],
    ['half', 0.5],
  ]) {
    const first = await core.acquireQuotaShareConcurrencySlot({ connectionId }, cap, { queueTimeoutMs: 5 });
    assert.equal(typeof first, 'function');
    assert.equal(await core.acquireQuotaShareConcurrencySlot({ connectionId }, cap, { queueTimeoutMs: 5 }), null);
  }
  const recorded = schedInstance({ compat: 'recorded' });
  for (const slot of [1, 2]) {
    const taken = await recorded.acquireQuotaShareConcurrencySlot({ connectionId: 'c' }, 1.5, { queueTimeoutMs: 5 });
    assert.equal(typeof taken, 'function', `recorded, slot ${slot}`);
  }
});
