// Corrections 9 and 11 of the default mode: what is read from texts and headers, beside what the recorded mode reads.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bothModes, compare, NOON } from './support/host.mjs';

describe('9. learning from texts', () => {
  // Text → what each mode reads.
  const texts = [
    ['limit 12k tpm', { kind: 'tpm', limit: 12 }, { kind: 'tpm', limit: 12_000 }],
    ['limit 1.5M tokens per day', { kind: 'tpd', limit: 1 }, { kind: 'tpd', limit: 1_500_000 }],
    ['limit 50 000 rpm', { kind: 'rpm', limit: 50 }, { kind: 'rpm', limit: 50_000 }],
    ['limit 50\u00a0000 rpm', { kind: 'rpm', limit: 50 }, { kind: 'rpm', limit: 50_000 }],
    ['limit 50\u202f000 rpm', { kind: 'rpm', limit: 50 }, { kind: 'rpm', limit: 50_000 }],
    ['limit 60.000000 rpm', { kind: 'rpm', limit: 60 }, { kind: 'rpm', limit: 60 }],
    ['limit=60 rpm', null, { kind: 'rpm', limit: 60 }],
    ['limit of 60 requests per minute', null, { kind: 'rpm', limit: 60 }],
    ['limit 1e3 rpm', { kind: 'rpm', limit: 1 }, null],
    ['limit 15abc rpm', { kind: 'rpm', limit: 15 }, null],
    ['tokens per minute, limit: 10000 neurons', { kind: 'tpm', limit: 10_000 }, null],
    ['requests per day, limit 10 credits', { kind: 'rpd', limit: 10 }, null],
    ['tokens per minute, limit: 8192 context tokens', { kind: 'tpm', limit: 8192 }, null],
    ['limit 500 requests per hour, rpm', { kind: 'rpm', limit: 500 }, null],
  ];
  for (const [text, recordedAnswer, correctedAnswer] of texts) {
    test(JSON.stringify(text), (t) => {
      const { recorded, corrected } = compare(t, ({ core }) => core.parseProviderLimit(text));
      assert.deepEqual(corrected, correctedAnswer);
      assert.deepEqual(recorded, recordedAnswer);
    });
  }
});

describe('11. Retry-After and reset headers', () => {
  const parse = (host, status, headers) =>
    host.core.parseQuotaObservationsFromResponse(new Response(null, { status, headers }), {
      platform: 'groq',
      keyId: 1,
    });
  const retryAfter = (value) => (host) =>
    parse(host, 429, { 'retry-after': value }).find(
      (seen) => seen.retryAfterMs !== undefined && seen.retryAfterMs !== null,
    )?.retryAfterMs ?? null;

  for (const [value, expected] of [
    ['30', 30_000],
    ['1.5', 1500],
    ['0', 0],
    ['-5', null],
    ['in 5', null],
    ['1e16', null],
    ['', null],
  ]) {
    test(`Retry-After: ${value}`, (t) => {
      const { corrected } = bothModes(t);
      assert.equal(retryAfter(value)(corrected), expected);
    });
  }

  test('an HTTP date', (t) => {
    const { recorded, corrected } = compare(t, retryAfter(new Date(NOON + 90_000).toUTCString()));
    assert.deepEqual({ recorded, corrected }, { recorded: 90_000, corrected: 90_000 });
  });

  for (const [value, ms] of [
    ['1h30m15s', 5_415_000],
    ['250ms', 250],
    ['7.66s', 7660],
    ['2m', 120_000],
  ]) {
    test(`a reset of ${value}`, (t) => {
      const reset = (host) =>
        parse(host, 200, {
          'x-ratelimit-limit-requests': '10',
          'x-ratelimit-remaining-requests': '1',
          'x-ratelimit-reset-requests': value,
        })[0].resetAt ?? null;
      const { recorded, corrected } = compare(t, reset);
      assert.equal(recorded, null);
      assert.equal(Date.parse(corrected), NOON + ms);
    });
  }

  test('a huge reset never throws', (t) => {
    const headers = { 'x-ratelimit-limit-requests': '10', 'x-ratelimit-reset-requests': '1e300' };
    const { recorded, corrected } = bothModes(t);
    assert.throws(() => parse(recorded, 200, headers), RangeError);
    assert.equal(parse(corrected, 200, headers)[0].limit, 10);
  });
});
