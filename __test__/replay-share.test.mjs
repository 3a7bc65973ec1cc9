// The recorded runs of quota sharing, replayed in recorded mode; the enforcement runs twice, on the built-in store and
// through a store object of the host's.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { decode, difference } from './support/recorded-values.mjs';
import { replayCase } from './support/share-replayer.mjs';
import { readTrace, traceNames } from './support/traces.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../lib/core.js');

const VECTORS = ['fair-share', 'burn-rate', 'consumption-cost'];
const RUNS = traceNames('quota-share').filter((name) => name !== 'schema' && !VECTORS.includes(name));

/** Loose vectors (input outside the declared types) in which this package differs on purpose, by what they give. */
const UNCLAIMED_VECTORS = [
  // A cap of null is no cap here, as in a database row; the originals read it as a cap of zero.
  ({ input }) => input.allocation?.capValue === null,
];

for (const suite of VECTORS) {
  test(`recorded vectors: ${suite}`, (t) => {
    const clock = { now: 0 };
    const core = createQuotaCore({ compat: 'recorded', clock: () => clock.now });
    let compared = 0;
    for (const [index, vector] of readTrace('quota-share', suite).vectors.entries()) {
      if (vector.loose && UNCLAIMED_VECTORS.some((differs) => differs(vector))) continue;
      if (vector.now !== undefined) clock.now = vector.now;
      const input = decode(vector.input);
      const result = Array.isArray(input) ? core[vector.fn](...input) : core[vector.fn](input);
      assert.equal(difference(result, vector.output), null, `vector ${index}: ${JSON.stringify(vector.input)}`);
      compared += 1;
    }
    t.diagnostic(`${compared} vectors`);
  });
}

/** A run that makes the store's methods fail can only do so through an object. */
const needsHostStore = (run) => run.steps.some(({ fn }) => fn === '$storeFault');

for (const suite of RUNS) {
  const isEnforcement = suite.startsWith('enforce-');
  test(`recorded runs: ${suite}`, async (t) => {
    let steps = 0;
    for (const run of readTrace('quota-share', suite).cases) {
      if (needsHostStore(run)) continue;
      steps += await replayCase(run, { ownSignal: isEnforcement });
    }
    t.diagnostic(`${steps} steps`);
  });
  if (!isEnforcement) continue;
  test(`recorded runs through a store of the host's: ${suite}`, async (t) => {
    let steps = 0;
    for (const run of readTrace('quota-share', suite).cases) {
      steps += await replayCase(run, { ownSignal: true, store: 'host' });
    }
    t.diagnostic(`${steps} steps`);
  });
}
