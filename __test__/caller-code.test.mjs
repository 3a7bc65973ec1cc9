// Code of the caller runs inside a call (getters of limits, the provider, the clock) and may ask for other routes, as many
// as make handles be taken back: the call still is about its own route.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { createQuotaCore } = createRequire(import.meta.url)('../index.js');

const NONE = { rpm: null, rpd: null, tpm: null, tpd: null };
const ALMOST_ALL_HANDLES = 99_990;

/** An instance without a database, and what makes it take its handles back. */
function crowded(t, options = {}) {
  const core = createQuotaCore({ env: {}, ...options });
  t.after(() => core.close());
  let keyId = 0;
  const fill = (count) => {
    for (let made = 0; made < count; made += 1) {
      keyId += 1;
      core.inFlightForKey('fill', keyId);
    }
  };
  return { core, fill };
}

test('a getter of limits', (t) => {
  const { core, fill } = crowded(t);
  core.recordRequest('p', 'm', 1);
  fill(ALMOST_ALL_HANDLES);
  const limits = {
    ...NONE,
    get rpm() {
      fill(20);
      for (let keyId = 1; keyId <= 20; keyId += 1) core.canMakeRequest('other', 'm', keyId, NONE);
      return 1;
    },
  };
  assert.equal(core.canMakeRequest('p', 'm', 1, limits), false);
});

test('the clock', (t) => {
  let busy = () => {};
  const { core, fill } = crowded(t, {
    clock: () => {
      const work = busy;
      busy = () => {};
      work();
      return 1_700_000_000_000;
    },
  });
  const whileBusy = (call) => {
    fill(ALMOST_ALL_HANDLES);
    busy = () => {
      fill(20);
      for (let keyId = 1; keyId <= 20; keyId += 1) core.canMakeRequest('other', 'm', keyId, NONE);
    };
    return call();
  };
  whileBusy(() => core.recordRequest('p', 'm', 1));
  assert.equal(core.canMakeRequest('p', 'm', 1, { ...NONE, rpm: 1 }), false);
  whileBusy(() => core.setCooldown('p', 'm', 1, 60_000));
  assert.equal(
    whileBusy(() => core.isOnCooldown('p', 'm', 1)),
    true,
  );
  whileBusy(() => core.acquireLease('p', 'm', 1, 5));
  assert.equal(
    whileBusy(() => core.inFlightForKey('p', 1)),
    1,
  );
});

test('wrong arguments are told before code of the caller runs', (t) => {
  const { core } = crowded(t);
  const limits = {
    get rpm() {
      throw new Error('not yet');
    },
  };
  assert.throws(() => core.canMakeRequest('p', 5, 1, limits), {
    code: 'ERR_QUOTA_INVALID_ARGUMENT',
    message: /modelId/,
  });
});
