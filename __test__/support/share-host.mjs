// A host's database with one pool, and an instance on it with a clock that the test sets.
import { createRequire } from 'node:module';

import { hostDatabase, insert } from './share-replayer.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../../lib/core.js');

export const START = 1_790_000_000_000;
export const HOUR = 3_600_000;

/** One pool `p` on connection `c1`, with keys of the given weights; `limits` are the plan of the connection. */
export function seedPool(
  db,
  { weights = { k1: 50, k2: 50 }, policy = 'hard', limits = [], members = ['c1'], provider = 'kimi' } = {},
) {
  insert(db, {
    provider_connections: members.map((id) => ({ id, provider, created_at: 'x', updated_at: 'x' })),
    quota_pools: [{ id: 'p', connection_id: members[0], name: 'P', group_id: 'group-demo', created_at: '2026' }],
    quota_pool_connections: members.map((id) => ({ pool_id: 'p', connection_id: id })),
    quota_allocations: Object.entries(weights).map(([id, weight]) => ({
      pool_id: 'p',
      api_key_id: id,
      weight,
      policy,
    })),
    provider_plans:
      limits.length === 0
        ? []
        : [{ connection_id: 'c1', provider, dimensions_json: JSON.stringify(limits), source: 'manual' }],
  });
}

export const limit = (unit, window, value) => ({ unit, window, limit: value });

/** @param options options of the instance, and `file`, `pool` (see `seedPool`; null: none) */
export function shareHost(t, { file, pool = {}, ...options } = {}) {
  const db = hostDatabase(file);
  if (pool !== null) seedPool(db, pool);
  const clock = { now: START };
  const warnings = [];
  const core = createQuotaCore({
    database: db,
    clock: () => clock.now,
    env: {},
    logger: { warn: (tag, message) => warnings.push([tag, message]) },
    ...options,
  });
  t.after(() => {
    core.close();
    db.close();
  });
  return {
    db,
    core,
    clock,
    warnings,
    store: core.getSqliteQuotaStore(),
    ask: (apiKeyId = 'k1', more = {}) =>
      core.enforceQuotaShare({ apiKeyId, connectionId: 'c1', provider: 'kimi', ...more }),
    spend: (cost, apiKeyId = 'k1', more = {}) =>
      core.recordConsumption({ apiKeyId, connectionId: 'c1', provider: 'kimi', cost, ...more }),
  };
}
