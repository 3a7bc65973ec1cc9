// Fairness, shown on a simulated account over two virtual weeks (fixed seed), with every decision compared with the rules:
// above the threshold no hard key goes beyond its share; below it nobody who fits is refused; nothing goes when all is used.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { alone, bursts, crowded, KEYS, LIMIT, picks, THRESHOLD, WINDOW } from '../demo/account.mjs';

const seed = 11;
const days = 14;
/** The largest request of the simulation, as a part of the limit: the last one before a bound may go that far beyond it. */
const ONE_REQUEST = 4500 / LIMIT;

const between = (value, low, high, message) => assert.ok(value >= low && value <= high, `${message}: ${value}`);

test('a lone key reaches the whole limit while the others idle', async () => {
  for (const { id, weight, policy } of KEYS) {
    const untold = await alone(id, { seed, reports: false });
    assert.deepEqual(untold.broken, []);
    between(untold.reached, 1, 1 + ONE_REQUEST, `${id}, below the threshold`);
    // A provider that reports its use ends what a hard key may borrow at the threshold.
    const told = await alone(id, { seed });
    assert.deepEqual(told.broken, []);
    const bound = policy === 'hard' ? Math.max(THRESHOLD, weight / 100) : 1;
    between(told.reached, bound, bound + ONE_REQUEST, `${id}, with the provider's report`);
  }
});

test('a crowd: shares by the rules, and nobody starves', async () => {
  const account = await crowded({ seed, days });
  assert.deepEqual(account.broken, []);
  between(account.highest / LIMIT, 1, 1 + ONE_REQUEST, 'the account is used up and not beyond');
  const all = account.keys.reduce((sum, key) => sum + key.tokens, 0);
  for (const key of account.keys) {
    assert.ok(key.longestWait <= WINDOW, `${key.id} waited ${key.longestWait} ms`);
    assert.ok(key.tokens / all >= key.weight / 200, `${key.id} got ${key.tokens} of ${all}`);
  }
});

test('bursts: what is idle is lent, what is owed is given', async () => {
  const account = await bursts({ seed, days });
  assert.deepEqual(account.broken, []);
  between(account.highest / LIMIT, 1, 1 + ONE_REQUEST, 'the account is used up and not beyond');
  for (const key of account.keys) {
    assert.ok(key.longestWait <= WINDOW, `${key.id} waited ${key.longestWait} ms`);
  }
  const lent = account.keys.filter((key) => key.highest > (key.weight / 100 + ONE_REQUEST) * LIMIT);
  assert.ok(lent.length > 0, 'somebody used what others left');
});

for (const release of ['at once', 'late', 'never']) {
  test(`ten thousand picks by weight, released ${release}`, () => {
    for (const { id, weight, part } of picks(release, { seed, turns: 10_000 })) {
      assert.ok(Math.abs(part - weight) <= weight / 100, `${id}: ${part} % for a weight of ${weight} %`);
    }
  });
}
