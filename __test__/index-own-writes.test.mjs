// Own writes are applied to what is remembered: they never make the tables be read again, and the answers stay SQL's.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from './support/driver.mjs';
import { Host, noLimits } from './support/host.mjs';

const ROUTE = ['groq', 'm', 1];
const limits = { ...noLimits, rpm: 1e6, rpd: 1e6, tpm: 1e9, tpd: 1e9 };
/** How often tables were read into memory, by cause. */
function readsByCause(core) {
  const lines = core.metrics().matchAll(/^quota_core_index_reads_total\{cause="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, cause, count]) => [cause, Number(count)]));
}
const reads = (core) => Object.values(readsByCause(core)).reduce((sum, count) => sum + count, 0);

const WRITES = {
  recordRequest: (core) => core.recordRequest(...ROUTE),
  recordTokens: (core) => core.recordTokens(...ROUTE, 7),
  // Two rows in one commit: a transaction that locked more than it writes would look like somebody else's.
  settle: (core) => core.settle(core.acquireLease(...ROUTE, 10), { tokens: 7 }),
  'settle of several requests': (core) => core.settle(core.acquireLease(...ROUTE, 10), { tokens: 7, requests: 3 }),
};

for (const memory of [false, true]) {
  for (const [name, write] of Object.entries(WRITES)) {
    test(`${name}, ${memory ? 'in memory' : 'on a WAL file'}: no table is read again`, (t) => {
      const host = new Host(t, { memory });
      const plain = host.createCore({ index: false });
      t.after(() => plain.close());
      const status = (core) => core.getRateLimitStatus(...ROUTE, limits);
      write(host.core);
      status(host.core);
      const before = reads(host.core);
      for (let turn = 0; turn < 20; turn++) {
        write(host.core);
        assert.deepEqual(status(host.core), status(plain));
      }
      assert.equal(reads(host.core), before);
    });
  }
}

test('why something was read again', (t) => {
  const host = new Host(t, { memory: false });
  const other = openDatabase(host.file);
  t.after(() => other.close());
  const insert = `INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms)
    VALUES ('groq', 'm', 1, 'request', 0, ${host.now})`;
  const changes = {
    host_rows: () => host.db.exec(insert),
    other_connection: () => other.exec(insert),
    schema: () => host.db.exec('CREATE TABLE another_one (a)'),
    uncounted: () => host.db.exec('DELETE FROM rate_limit_usage'),
  };
  const ask = () => host.core.canMakeRequest(...ROUTE, limits);
  ask();
  assert.deepEqual(readsByCause(host.core), {
    first: 1,
    ...Object.fromEntries(Object.keys(changes).map((name) => [name, 0])),
  });
  for (const [cause, change] of Object.entries(changes)) {
    const before = readsByCause(host.core);
    change();
    ask();
    assert.deepEqual(readsByCause(host.core), { ...before, [cause]: before[cause] + 1 }, cause);
  }
});
