// Calls while a statement of the host is in the middle of its writes: a loop over `UPDATE … RETURNING`, or a function that
// the statement calls. The host's statement is its own affair, and nothing of ours is lost or counted twice.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Host, noLimits } from './support/host.mjs';

const request = { apiKeyId: 'k', connectionId: 'c', provider: 'openai' };

/** A host with three jobs beside the tables of ours. */
function hostWithJobs(t) {
  const host = new Host(t, { driver: 'better-sqlite3' });
  const { db, core } = host;
  db.exec(
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT); INSERT INTO jobs (state) VALUES ('new'), ('new'), ('new')",
  );
  const states = () =>
    db
      .prepare('SELECT DISTINCT state FROM jobs')
      .all()
      .map(({ state }) => state);
  const used = () => core.getRateLimitStatus('p', 'm', 1, noLimits);
  const stored = () => db.prepare("SELECT count(*) AS n FROM rate_limit_usage WHERE kind = 'request'").get().n;
  // The connection is taken over now: better-sqlite3 loads no extension during a loop.
  used();
  return { db, core, states, used, stored };
}

const settleOne = (core) => core.settle(core.acquireLease('p', 'm', 1, 5), { tokens: 5 });

/** Ways of the host to have us called in the middle of a statement that writes. */
const ways = {
  'a loop over UPDATE … RETURNING': (db, call) => {
    const update = db.prepare("UPDATE jobs SET state = 'taken' RETURNING id");
    for (const _row of update.iterate()) call();
  },
  'a function that an UPDATE calls': (db, call) => {
    db.function('call', () => {
      call();
      return 'taken';
    });
    db.exec('UPDATE jobs SET state = call()');
  },
};

for (const [name, run] of Object.entries(ways)) {
  describe(name, () => {
    test('settling counts once, and leaves the statement alone', (t) => {
      const { db, core, states, used, stored } = hostWithJobs(t);
      run(db, () => settleOne(core));
      assert.deepEqual(states(), ['taken']);
      assert.equal(used().rpm.used, 3);
      assert.equal(used().tpm.used, 15);
      core.recordRequest('p', 'm', 1);
      assert.equal(used().rpm.used, 4);
      assert.equal(stored(), 4);
      assert.equal(core.inspect().pendingEvents, 0);
    });

    test('consumption is recorded as part of the statement', async (t) => {
      const { db, core, states } = hostWithJobs(t);
      core.ensureQuotaSchema();
      const { id } = core.createPool({ connectionId: 'c', name: 'n', allocations: [{ apiKeyId: 'k', weight: 100 }] });
      core.upsertProviderPlan('c', 'openai', [{ unit: 'tokens', window: 'daily', limit: 100 }], 'manual');
      const recorded = [];
      run(db, () => recorded.push(core.recordConsumption({ ...request, cost: { tokens: 7 } })));
      await Promise.all(recorded);
      assert.deepEqual(states(), ['taken']);
      const counter = { poolId: id, unit: 'tokens', window: 'daily' };
      assert.equal(await core.getSqliteQuotaStore().peek('k', counter), 21);
    });

    test('what needs a transaction of its own is refused, and leaves the statement alone', (t) => {
      const { db, core, states } = hostWithJobs(t);
      core.ensureQuotaSchema();
      run(db, () =>
        assert.throws(() => core.createPool({ connectionId: 'c', name: 'n' }), { code: 'ERR_QUOTA_DATABASE' }),
      );
      assert.deepEqual(states(), ['taken']);
      assert.deepEqual(core.listPools(), []);
    });
  });
}

test('two instances, one called by a trigger of the rows of the other', (t) => {
  const { db, core, used, stored } = hostWithJobs(t);
  const inner = new Host(t, { core: { database: () => db } }).core;
  let busy = false;
  db.function('call', () => {
    if (busy) return 0;
    busy = true;
    inner.settle(inner.acquireLease('p', 'm', 1, 5), { requests: 2 });
    busy = false;
    return 1;
  });
  db.exec('CREATE TRIGGER calls AFTER INSERT ON rate_limit_usage BEGIN SELECT call(); END');
  core.recordRequest('p', 'm', 1);
  assert.equal(used().rpm.used, 1);
  assert.equal(inner.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used, 3);
  busy = true;
  inner.recordRequest('p', 'm', 1);
  assert.equal(stored(), 4);
  assert.equal(used().rpm.used, 4);
});
