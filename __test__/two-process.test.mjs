// A second process writes to the same file: what it committed counts at the very next question.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Host, noLimits } from './support/host.mjs';
import { Writer } from './support/writer.mjs';

const rounds = Number(process.env.QUOTA_TEST_TWO_PROCESS_ROUNDS ?? 300);
const rows = Number(process.env.QUOTA_TEST_TWO_PROCESS_ROWS ?? 2000);

for (const mode of ['sql', 'addon']) {
  test(`rows written and removed by another process (${mode}) count at once`, async (t) => {
    const host = new Host(t);
    const writer = new Writer(t, { file: host.file, mode, platform: 'theirs', now: host.now });
    const used = () => host.core.getRateLimitStatus('theirs', 'm', 1, noLimits).rpm.used;
    for (let round = 1; round <= rounds; round += 1) {
      const count = (round % 7) + 1;
      assert.equal(used(), 0);
      await writer.ask(`record ${count}`);
      assert.equal(used(), count);
      assert.equal(host.core.providerMinuteRequestCount('theirs', 1), count);
      assert.equal(host.core.canMakeRequest('theirs', 'm', 1, { ...noLimits, rpm: count }), false);
      assert.equal(host.core.canMakeRequest('theirs', 'm', 1, { ...noLimits, rpm: count + 1 }), true);
      await writer.ask('remove');
    }
    await writer.end();
  });
}

test('three writers at once lose nothing and invent nothing', async (t) => {
  const host = new Host(t);
  const writers = ['sql', 'addon'].map(
    (mode) => new Writer(t, { file: host.file, mode, platform: 'all', now: host.now }),
  );
  const count = host.db.prepare("SELECT COUNT(*) AS n FROM rate_limit_usage WHERE platform = 'all'");
  let running = true;
  const done = Promise.all(writers.map((writer) => writer.ask(`record ${rows}`))).then(() => {
    running = false;
  });
  let own = 0;
  while (running || own < rows) {
    if (own < rows) {
      host.core.recordRequest('all', 'm', 1);
      own += 1;
    }
    // The others only add: the answer lies between what SQL counts before and after it.
    const before = count.get().n;
    const used = host.core.getRateLimitStatus('all', 'm', 1, noLimits).rpm.used;
    const after = count.get().n;
    assert.ok(before <= used && used <= after, `${before} <= ${used} <= ${after}`);
    if (own % 20 === 0) await new Promise(setImmediate);
  }
  await done;
  assert.equal(count.get().n, 3 * rows);
  assert.equal(host.core.getRateLimitStatus('all', 'm', 1, noLimits).rpm.used, 3 * rows);
  assert.deepEqual(host.warnings, []);
  for (const writer of writers) await writer.end();
});
