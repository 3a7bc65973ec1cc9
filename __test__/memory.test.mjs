// What is remembered is bounded: a day of events, and no route that nobody uses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, HOUR, Host, MINUTE, noLimits } from './support/host.mjs';
import { Random } from './support/random.mjs';

const gauge = (core, name) => Number(new RegExp(`^${name} (.+)$`, 'm').exec(core.metrics())[1]);
const routes = (core) => gauge(core, 'quota_core_index_routes');
const bytes = (core) => gauge(core, 'quota_core_index_bytes');

test('routes that were not used for a day leave', (t) => {
  const host = new Host(t);
  for (let model = 0; model < 200; model += 1) {
    host.core.recordRequest('groq', `m${model}`, 1);
    host.core.getRateLimitStatus('groq', `m${model}`, 1, noLimits);
  }
  assert.equal(routes(host.core), 200);
  host.advance(DAY + MINUTE);
  host.core.recordRequest('groq', 'm0', 1);
  assert.ok(routes(host.core) <= 1);
  assert.equal(host.core.getRateLimitStatus('groq', 'm0', 1, noLimits).rpd.used, 1);
});

test('the third day of mixed load takes what the second took', (t) => {
  const host = new Host(t);
  const { core } = host;
  const random = new Random(7);
  host.addKey(1, 'groq');
  const sizes = [];
  for (let hour = 1; hour <= 72; hour += 1) {
    for (let count = 0; count < 150; count += 1) {
      // Every day has models of its own beside those that stay.
      const modelId = random.chance(0.5) ? `m${random.int(0, 20)}` : `day${Math.floor(hour / 24)}-${random.int(0, 20)}`;
      const limits = { rpm: 50, rpd: 5000, tpm: 50_000, tpd: 5_000_000 };
      const request = { platform: 'groq', modelId, keyId: 1, limits, estimatedTokens: 100 };
      const answer = core.admit(request);
      if (answer.admitted) core.settle(answer.leaseId, { tokens: random.int(0, 300) });
      if (random.chance(0.05)) core.setCooldown('groq', modelId, 1, MINUTE);
      if (random.chance(0.02)) host.sql('UPDATE rate_limit_usage SET tokens = tokens + 1 WHERE rowid % 50 = 0');
      if (random.chance(0.05)) core.modelWindowUsedFraction({ platform: 'groq', modelId }, limits);
      host.advance(HOUR / 150);
    }
    core.cleanupExpiredCooldowns();
    sizes.push(bytes(core));
  }
  const [second, third] = [Math.max(...sizes.slice(24, 48)), Math.max(...sizes.slice(48))];
  assert.ok(third < 1.2 * second, `${third} after ${second} bytes`);
  const { leases, cooldowns } = core.inspect();
  assert.deepEqual([leases, cooldowns < 50], [0, true]);
});
