// The calls that skip the generated glue still check what they are given: nothing ends the process.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { createQuotaCore } = createRequire(import.meta.url)('..');
const binding = createRequire(import.meta.url)('../binding.js');
const hot = binding.hot();

test('arguments that are no numbers are refused with a code', () => {
  for (const wrong of ['1', null, undefined, {}, [], 1n, Symbol('one'), () => 1, true]) {
    for (const [name, call] of Object.entries(hot)) {
      assert.throws(() => call(wrong), { code: 'ERR_QUOTA_INVALID_ARGUMENT' }, name);
    }
  }
  assert.throws(() => hot.canMakeRequest(), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
});

test('an array of another kind is refused with a code', () => {
  for (const array of [new Float32Array(12), new BigUint64Array(12), new DataView(new ArrayBuffer(96)), [1, 2, 3]]) {
    assert.throws(() => hot.admit(array, 0, 1, 0, 0), { code: 'ERR_QUOTA_INVALID_ARGUMENT' });
  }
});

test('an engine that there is not, and handles that were never given, end no process', () => {
  for (const engine of [-1, 1.5e9, Number.NaN, Number.POSITIVE_INFINITY, 4e9]) {
    const call = () => hot.canMakeRequest(engine, 0, 0, 1, 1);
    // NaN and what is below 0 saturate to the first engine, which may be there.
    if (engine > 0) assert.throws(call, { code: 'ERR_QUOTA_INTERNAL' });
  }
  const core = createQuotaCore();
  const detached = new ArrayBuffer(96);
  const gone = new Float64Array(detached);
  structuredClone(detached, { transfer: [detached] });
  const engines = Array.from({ length: 50 }, (_, number) => number);
  for (const engine of engines) {
    for (const odd of [-1, 0.5, Number.NaN, 2 ** 32, Number.MAX_VALUE]) {
      for (const ask of [
        () => hot.canMakeRequest(engine, odd, odd, odd, odd),
        () => hot.canUseProviderTokens(engine, odd, odd, odd, odd),
        () => hot.acquireLease(engine, 2 ** 31, odd, odd),
        () => hot.releaseLease(engine, odd),
        () => hot.settle(engine, odd, odd, odd, odd),
        () => hot.admit(new Float64Array(12).fill(odd), engine, odd, odd, 1),
        () => hot.admit(gone, engine, 1, 0, 1),
        () => hot.isLinkClosed(odd),
      ]) {
        try {
          ask();
        } catch (error) {
          assert.match(error.code, /^ERR_QUOTA_/);
        }
      }
    }
  }
  assert.equal(core.canMakeRequest('p', 'm', 1, { rpm: 1, rpd: 1 }), true);
  core.close();
});
