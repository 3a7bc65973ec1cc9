// Correction 12 of the default mode: numbers that make no sense, beside what the recorded mode makes of them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bothModes, compare, noLimits } from './support/host.mjs';

const route = ['p', 'm', 1];

describe('12. numbers that make no sense', () => {
  const tight = { tpm: 1, tpd: null };

  test('NaN tokens open no gate', (t) => {
    const { recorded, corrected } = compare(t, ({ core }) => {
      core.recordTokens(...route, 5);
      return core.canUseTokens(...route, NaN, tight);
    });
    assert.deepEqual({ recorded, corrected }, { recorded: true, corrected: false });
  });

  test('negative tokens make no room', (t) => {
    const { recorded, corrected } = compare(t, ({ core }) => {
      core.recordTokens(...route, 5);
      core.acquireLease(...route, -100);
      core.recordTokens(...route, -100);
      return [core.canUseTokens(...route, 0, tight), core.canUseTokens(...route, -100, { tpm: 4, tpd: null })];
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [true, true], corrected: [false, false] });
  });

  test('a lease of NaN tokens closes nothing and opens nothing', (t) => {
    const { recorded, corrected } = compare(t, ({ core }) => {
      core.acquireLease(...route, NaN);
      return [core.canUseTokens(...route, 2, tight), core.canUseTokens(...route, 1, tight)];
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [true, true], corrected: [false, true] });
  });

  test('infinite and fractional tokens count up', (t) => {
    const { corrected } = bothModes(t);
    corrected.core.recordTokens(...route, 1.2);
    assert.equal(corrected.core.getRateLimitStatus(...route, noLimits).tpm.used, 2);
    assert.equal(corrected.core.canUseTokens(...route, Infinity, { tpm: 1e12, tpd: null }), false);
    corrected.core.recordTokens(...route, Infinity);
    assert.equal(corrected.core.canUseTokens(...route, 0, { tpm: 1e12, tpd: null }), false);
  });

  test('NaN recorded is a row of 0 tokens; recorded mode loses it to a constraint', (t) => {
    const { recorded, corrected } = compare(t, (host) => {
      host.core.recordTokens(...route, NaN);
      return host.all('SELECT tokens FROM rate_limit_usage');
    });
    assert.deepEqual({ recorded, corrected }, { recorded: [], corrected: [{ tokens: 0 }] });
  });

  test('limits that make no sense close the gate', (t) => {
    const {
      corrected: { core },
    } = bothModes(t);
    for (const limit of [NaN, -1, -Infinity]) {
      assert.equal(core.canMakeRequest(...route, { ...noLimits, rpm: limit }), false, String(limit));
      assert.equal(core.canUseTokens(...route, 1, { tpm: limit, tpd: null }), false, String(limit));
    }
  });

  test('it warns once', (t) => {
    const { corrected } = bothModes(t);
    for (let index = 0; index < 5; index += 1) {
      corrected.core.recordTokens(...route, NaN);
      corrected.core.canUseTokens(...route, -1, tight);
      corrected.core.acquireLease(...route, Infinity);
    }
    assert.equal(corrected.warnings.length, 1, JSON.stringify(corrected.warnings));
  });
});
