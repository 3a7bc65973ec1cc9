import { createQuotaCore } from 'quota-core';
import { afterEach, expect, test, vi } from 'vitest';

afterEach(() => vi.useRealTimers());

test('fake timers move the windows', () => {
  vi.useFakeTimers({ now: Date.UTC(2027, 0, 1, 12) });
  const core = createQuotaCore({ database: ':memory:' });
  const limits = { rpm: 1, rpd: null, tpm: null, tpd: null };
  core.recordRequest('groq', 'm', 1);
  expect(core.canMakeRequest('groq', 'm', 1, limits)).toBe(false);
  vi.advanceTimersByTime(60_000);
  expect(core.canMakeRequest('groq', 'm', 1, limits)).toBe(true);
  core.close();
});

test('a module loaded anew has state of its own', async () => {
  const first = await import('quota-core');
  vi.resetModules();
  const second = await import('quota-core');
  const [one, two] = [first, second].map((it) => it.createQuotaCore({ database: ':memory:' }));
  one.setCooldown('groq', 'm', 1);
  expect(one.isOnCooldown('groq', 'm', 1)).toBe(true);
  expect(two.isOnCooldown('groq', 'm', 1)).toBe(false);
});
