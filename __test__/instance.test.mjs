// Instances: what their provider may return, how they share connections, and how they end.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import quotaCore from '../index.js';
import { openDatabase } from './support/driver.mjs';
import { createHostTables, Host, noLimits } from './support/host.mjs';
import { goodArgs, limits, signatures } from './support/signatures.mjs';

describe('what a provider may return', () => {
  test('nothing, as long as the host has not opened its database: memory answers', (t) => {
    for (const value of [undefined, null]) {
      const { core, warnings } = new Host(t, { core: { database: () => value } });
      core.recordRequest('p', 'm', 1);
      assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
      assert.deepEqual(warnings, []);
    }
  });

  const useless = {
    'a number': 42,
    'an empty object': {},
    'an object with another loadExtension': { prepare() {}, exec() {}, loadExtension() {} },
    'an object whose loadExtension throws': {
      loadExtension() {
        throw new Error('not allowed');
      },
    },
    'a Proxy that throws': new Proxy(
      {},
      {
        get() {
          throw new Error('trap');
        },
      },
    ),
  };
  for (const [name, value] of Object.entries(useless)) {
    test(`${name}: memory answers, with one warning`, (t) => {
      const { core, warnings } = new Host(t, { core: { database: () => value } });
      for (let count = 0; count < 5; count += 1) core.recordRequest('p', 'm', 1);
      assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 5);
      assert.equal(warnings.length, 1, JSON.stringify(warnings));
    });
  }

  test('an adapter that holds the connection in raw', (t) => {
    const host = new Host(t);
    const core = quotaCore.createQuotaCore({ database: () => ({ raw: host.db }) });
    core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 1);
    core.close();
  });

  test('a private database in memory', (t) => {
    const host = new Host(t, { memory: true });
    host.core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 1);
    assert.equal(host.core.canMakeRequest('p', 'm', 1, limits), false);
    host.sql('DELETE FROM rate_limit_usage');
    assert.equal(host.core.canMakeRequest('p', 'm', 1, limits), true);
  });

  test('two connections in turn: each answers for its own database', (t) => {
    const dbs = [openDatabase(':memory:'), openDatabase(':memory:')];
    for (const db of dbs) createHostTables(db);
    let current = 0;
    const core = quotaCore.createQuotaCore({ database: () => dbs[current] });
    t.after(() => {
      core.close();
      for (const db of dbs) db.close();
    });
    const used = () => core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used;
    for (let round = 1; round <= 20; round += 1) {
      current = 0;
      core.recordRequest('p', 'm', 1);
      assert.equal(used(), round);
      current = 1;
      assert.equal(used(), 0);
    }
  });

  test('many instances share one connection', (t) => {
    const host = new Host(t);
    const cores = Array.from({ length: 200 }, () =>
      quotaCore.createQuotaCore({ database: host.db, clock: () => host.now }),
    );
    for (const core of cores) core.recordRequest('p', 'm', 1);
    for (const core of cores) assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 200);
    for (const core of cores.slice(1)) core.close();
    cores[0].recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 201);
    cores[0].close();
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 201);
  });
});

describe('the life of an instance', () => {
  test('functions are its own and bound', (t) => {
    const { core } = new Host(t);
    const { canMakeRequest, recordRequest } = core;
    assert.equal(canMakeRequest('p', 'm', 1, limits), true);
    recordRequest('p', 'm', 1);
    assert.equal(canMakeRequest('p', 'm', 1, limits), false);
    for (const name of Object.keys(signatures)) assert.ok(Object.hasOwn(core, name), name);
  });

  test('after close every function throws ERR_QUOTA_CLOSED', (t) => {
    const host = new Host(t);
    host.core.close();
    host.core.close();
    const closed = (error) => error instanceof quotaCore.QuotaCoreError && error.code === 'ERR_QUOTA_CLOSED';
    for (const [name, kinds] of Object.entries(signatures)) {
      assert.throws(() => host.core[name](...goodArgs(kinds)), closed, name);
    }
    assert.throws(() => host.core.attach(host.db), closed);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 0);
  });

  test('a logger of the host hears what it has a method for; nobody hears the rest', (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    for (const [logger, heard] of [
      [undefined, 1],
      [{}, 0],
    ]) {
      warn.mock.resetCalls();
      const core = quotaCore.createQuotaCore({ ...(logger && { logger }), compat: 'corrected' });
      core.acquireLease('p', 'm', 1, -1);
      core.close();
      assert.equal(warn.mock.callCount(), heard);
    }
  });

  test('attach and detach by hand', (t) => {
    const host = new Host(t);
    const core = quotaCore.createQuotaCore({ logger: { debug() {}, info() {}, warn() {}, error() {} } });
    t.after(() => core.close());
    core.attach(host.db);
    core.recordRequest('p', 'm', 1);
    core.attach(host.db);
    core.recordRequest('p', 'm', 1);
    core.detach();
    core.detach();
    core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 2);
    core.attach(host.db);
    core.recordRequest('p', 'm', 1);
    assert.equal(host.value('SELECT COUNT(*) FROM rate_limit_usage'), 3);
  });

  test('reset forgets memory and keeps the database', (t) => {
    const { core } = new Host(t);
    core.recordRequest('p', 'm', 1);
    core.acquireLease('p', 'm', 1, 5);
    core.getNextCooldownDuration('p', 'm', 1);
    assert.equal(core.inspect().leases, 1);
    core.reset();
    assert.equal(core.inspect().leases, 0);
    assert.equal(core.inFlightForKey('p', 1), 0);
    assert.equal(core.getNextCooldownDuration('p', 'm', 1), 120_000);
    assert.equal(core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
  });

  test('lease ids are positive integers and not handed out twice while in use', (t) => {
    const { core } = new Host(t);
    const ids = Array.from({ length: 100 }, () => core.acquireLease('p', 'm', 1, 1));
    assert.equal(new Set(ids).size, 100);
    for (const id of ids) assert.ok(Number.isInteger(id) && id > 0);
    for (const odd of [0, -1, 1.5, NaN, Infinity, 1e300, ids[0] + 0.5]) core.releaseLease(odd);
    assert.equal(core.inFlightForKey('p', 1), 100);
    for (const id of ids) core.releaseLease(id);
    core.releaseLease(ids[0]);
    assert.equal(core.inFlightForKey('p', 1), 0);
  });

  test('far more routes than are kept at hand: leases and counts stay with their own', (t) => {
    const { core } = new Host(t);
    core.acquireLease('p', 'leased', 1, 5);
    core.recordRequest('p', 'counted', 1);
    for (let keyId = 2; keyId < 120_000; keyId += 1) core.inFlightForKey('p', keyId);
    for (let keyId = 2; keyId < 120_000; keyId += 1) core.getNextCooldownDuration('q', 'm', keyId);
    assert.equal(core.inFlightForKey('p', 1), 1);
    assert.equal(core.canMakeRequest('p', 'leased', 1, limits), false);
    assert.equal(core.canMakeRequest('p', 'counted', 1, limits), false);
    for (let keyId = 1; keyId < 1000; keyId += 1) {
      assert.equal(core.canMakeRequest('fresh', 'm', keyId, limits), true);
      assert.equal(core.providerDailyRequestCount('fresh', keyId), 0);
    }
    assert.equal(core.getNextCooldownDuration('q', 'm', 7), 600_000);
  });

  test('the host may close under it at any time', (t) => {
    const host = new Host(t);
    host.core.recordRequest('p', 'm', 1);
    host.close();
    host.core.recordRequest('p', 'm', 1);
    assert.equal(host.core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 1);
    host.core.close();
  });
});

test('a lease from before a reset meets no lease from after it', (t) => {
  const { core } = new Host(t);
  const before = core.acquireLease('p', 'before', 1, 100);
  core.reset();
  const after = core.acquireLease('p', 'after', 1, 7);
  assert.notEqual(after, before);
  assert.deepEqual(core.settle(before), { settled: false, expired: false });
  core.releaseLease(before);
  assert.equal(core.inFlightForKey('p', 1), 1);
  core.settle(after);
  assert.equal(core.getRateLimitStatus('p', 'after', 1, noLimits).tpm.used, 7);
});
