// Every recorded run of the rate-limit, probe and provider-quota functions answers as it did when it was recorded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replay } from './support/ratelimit-replayer.mjs';
import { tempFolder } from './support/temp.mjs';
import { readTrace, traceNames } from './support/traces.mjs';

const names = traceNames('ratelimit');
const replayed = [];

for (const name of names) {
  test(name, async (t) => {
    const trace = readTrace('ratelimit', name);
    assert.equal(trace.name, name);
    await replay(trace, tempFolder(t));
    replayed.push(name);
  });
}

test('every file of the folder was replayed to its end', () => {
  assert.ok(names.length > 0);
  assert.deepEqual(replayed, names);
});
