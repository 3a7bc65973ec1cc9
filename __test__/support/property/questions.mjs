// Questions of the property test: the instance and the naive model are asked the same and must answer the same.
import assert from 'node:assert/strict';

const same = assert.deepEqual;

/** Rows in an order of their own, whatever order they came in. */
function sorted(rows) {
  return rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
}

// Every question about usage at once: the cheapest way to notice that any of them went astray.
export function compareUsage(world) {
  const [platform, modelId, keyId] = world.route();
  const limits = world.limits();
  world.note('usage', platform, modelId, keyId, limits);
  const { core, model, now } = world;
  same(
    core.getRateLimitStatus(platform, modelId, keyId, limits),
    model.getRateLimitStatus(platform, modelId, keyId, limits, now),
  );
  same(
    core.canMakeRequest(platform, modelId, keyId, limits),
    model.canMakeRequest(platform, modelId, keyId, limits, now),
  );
  const estimate = world.random.int(0, 300);
  same(
    core.canUseTokens(platform, modelId, keyId, estimate, limits),
    model.canUseTokens(platform, modelId, keyId, estimate, limits, now),
  );
}

export function compareAccount(world) {
  const [platform, modelId, keyId] = world.route();
  world.note('account', platform, modelId, keyId);
  const { core, model, now } = world;
  const multiplier = world.multiplier(platform);
  same(core.providerDailyRequestCount(platform, keyId), model.providerDailyRequestCount(platform, keyId, now));
  same(core.providerMinuteRequestCount(platform, keyId), model.providerMinuteRequestCount(platform, keyId, now));
  same(core.inFlightForKey(platform, keyId), model.keyLeases(platform, keyId, now).length);
  same(core.canUseProvider(platform, keyId), model.canUseProvider(platform, keyId, now, world.cap('day', platform)));
  same(
    core.canUseProviderMinute(platform, keyId),
    model.canUseProviderMinute(platform, keyId, now, world.cap('minute', platform)),
  );
  // What a model's tokens are billed at is read from its row: without a database it is 1.
  const billed = model.open ? multiplier : () => 1;
  same(
    core.providerDailyTokenCount(platform, keyId),
    model.providerDailyTokenCount(platform, keyId, now, world.cap('tokens', platform), billed),
  );
  const estimate = world.random.int(0, 3000);
  same(
    core.canUseProviderTokens(platform, keyId, modelId, estimate),
    model.canUseProviderTokens(platform, keyId, modelId, estimate, now, world.cap('tokens', platform), billed),
  );
}

/** The tables themselves: nothing lost, nothing invented. */
export function compareTables(world) {
  if (!world.model.open) return;
  const { tables } = world.model;
  const usage = world.host.all(
    'SELECT platform, model_id AS modelId, key_id AS keyId, kind, tokens, created_at_ms AS at FROM rate_limit_usage',
  );
  same(sorted(usage), sorted(tables.usage));
  const cooldowns = world.host.all(
    'SELECT platform, model_id AS modelId, key_id AS keyId, expires_at_ms AS expires, source, set_at_ms AS setAt FROM rate_limit_cooldowns',
  );
  same(sorted(cooldowns), sorted([...tables.cooldowns.values()]));
  const models = world.host.all(
    "SELECT id, rpm_limit, rpd_limit, tpm_limit, tpd_limit FROM models WHERE platform = 'groq'",
  );
  same(models, [...tables.models.values()]);
}

export function compareCooldown(world) {
  const route = world.route();
  world.note('isOnCooldown', ...route);
  same(world.core.isOnCooldown(...route), world.model.isOnCooldown(...route, world.now));
  same(world.core.recentHitCount(...route, world.now), world.model.recentHitCount(...route, world.now));
}

/** The lists read the table alone, so there is something to compare only while it is there. */
export function compareCooldownLists(world) {
  if (!world.model.open) return;
  world.note('cooldown lists');
  const { core, model, now } = world;
  same(sorted(core.getProbeableCooldowns()), sorted(model.getProbeableCooldowns(now)));
  const keys = [world.key(), world.key(), 99, 1.5];
  const [actual, expected] = [core.getActiveCooldownsForKeys(keys), model.getActiveCooldownsForKeys(keys, now)];
  same(new Set(actual.keys()), new Set(expected.keys()));
  for (const [keyId, list] of actual) {
    same(sorted(list), sorted(expected.get(keyId)));
    same(
      list.map((entry) => entry.remainingMs),
      expected.get(keyId).map((entry) => entry.remainingMs),
    );
  }
  same(core.getSoonestCooldownExpiry(), model.getSoonestCooldownExpiry(now));
}
