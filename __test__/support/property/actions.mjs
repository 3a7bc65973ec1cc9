// What the router does in the property test: calls that change something, made on the instance and on the naive model.
import assert from 'node:assert/strict';
import { DAY, HOUR, MINUTE } from '../host.mjs';

const SOURCES = ['heuristic', 'heuristic', 'authoritative', 'credit', 'tier'];
const LEARNED = {
  rpm: 'requests per minute',
  rpd: 'requests per day',
  tpm: 'tokens per minute',
  tpd: 'tokens per day',
};
const same = assert.deepEqual;

export function record(world) {
  const [platform, modelId, keyId] = world.route();
  // Even where they may be refused: refused tokens are billed apart, and a half would be rounded up twice.
  const tokens = world.model.refuses ? 2 * world.random.int(0, 100) : world.random.int(0, 200);
  world.note('record', platform, modelId, keyId, tokens);
  world.core.recordRequest(platform, modelId, keyId);
  world.model.record('request', platform, modelId, keyId, 0, world.now);
  if (world.random.chance(0.3)) return;
  world.core.recordTokens(platform, modelId, keyId, tokens);
  world.model.record('tokens', platform, modelId, keyId, tokens, world.now);
}

export function lease(world) {
  const [platform, modelId, keyId] = world.route();
  const tokens = world.random.int(0, 300);
  world.note('lease', platform, modelId, keyId, tokens);
  same(
    world.core.acquireLease(platform, modelId, keyId, tokens),
    world.model.acquireLease(platform, modelId, keyId, tokens, world.now),
  );
}

export function release(world) {
  const id = world.random.chance(0.05)
    ? world.random.int(-2, 9999)
    : world.random.pick([...world.model.leases.keys(), 0]);
  world.note('release', id);
  world.core.releaseLease(id);
  world.model.leases.delete(id);
}

export function setCooldown(world) {
  const [platform, modelId, keyId] = world.route();
  const duration = world.random.pick([0, 1000, 30_000, 90_000, 10 * MINUTE, HOUR]) + world.random.int(0, 999);
  const source = world.random.pick(SOURCES);
  world.note('setCooldown', platform, modelId, keyId, duration, source);
  world.core.setCooldown(platform, modelId, keyId, duration, source);
  world.model.setCooldown(platform, modelId, keyId, duration, source, world.now);
}

export function decide(world) {
  const [platform, modelId, keyId] = world.route();
  const { rpd, tpd } = world.limits();
  const retryAfter = world.random.pick([undefined, undefined, 5000, 200_000, 2 * DAY]);
  const quotaSignal = world.random.chance(0.7);
  world.note('decide', platform, modelId, keyId, { rpd, tpd }, String(retryAfter), quotaSignal);
  same(
    world.core.getCooldownDecisionForLimit(platform, modelId, keyId, { rpd, tpd }, retryAfter, { quotaSignal }),
    world.model.getCooldownDecisionForLimit(platform, modelId, keyId, { rpd, tpd }, retryAfter, quotaSignal, world.now),
  );
}

export function ladder(world) {
  const route = world.route();
  world.note('ladder', ...route);
  same(world.core.getNextCooldownDuration(...route), world.model.getNextCooldownDuration(...route, world.now));
}

export function clearCooldown(world) {
  const route = world.route();
  world.note('clearCooldownEarly', ...route);
  world.core.clearCooldownEarly(...route);
  world.model.clearCooldownEarly(...route);
}

export function clearKey(world) {
  if (!world.model.open) return;
  const keyId = world.key();
  world.note('clearCooldownsForKey', keyId);
  same(world.core.clearCooldownsForKey(keyId), world.model.clearCooldownsForKey(keyId));
}

export function cleanup(world) {
  if (!world.model.open) return;
  world.note('cleanupExpiredCooldowns');
  same(world.core.cleanupExpiredCooldowns(), world.model.cleanupExpiredCooldowns(world.now));
}

export function learn(world) {
  if (!world.model.open) return;
  const id = world.random.pick(world.modelIds);
  const kind = world.random.pick(Object.keys(LEARNED));
  const limit = world.random.int(1, 1000);
  world.note('learn', id, kind, limit);
  const expected = world.model.learn(id, `${kind}_limit`, limit) ? { kind, limit } : null;
  same(
    world.core.learnLimitFromError(id, {
      message: `Rate limit reached on ${LEARNED[kind]}. Limit: ${limit}, used: 3`,
    }),
    expected,
  );
}

export function changeCaps(world) {
  world.caps = { day: world.random.int(1, 60), minute: world.random.int(1, 20), tokens: world.random.int(100, 9000) };
  world.note('caps', world.caps);
  world.applyCaps();
}
