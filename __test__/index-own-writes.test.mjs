// Own writes are applied to what is remembered: they never make the tables be read again, and the answers stay SQL's.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Host, noLimits } from './support/host.mjs';

const ROUTE = ['groq', 'm', 1];
const limits = { ...noLimits, rpm: 1e6, rpd: 1e6, tpm: 1e9, tpd: 1e9 };
const reads = (core) => Number(/^quota_core_index_reads_total (\d+)$/m.exec(core.metrics())[1]);

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
