// The baseline of quota sharing: a router's own modules on better-sqlite3, one function per question, statements prepared
// once. Written for this comparison, for the rules that the engine applies.

const WINDOW = { hourly: 3_600_000, '5h': 18_000_000, daily: 86_400_000, weekly: 604_800_000, monthly: 2_592_000_000 };

const bucketOf = (window, now) => Math.floor(now / WINDOW[window]);
const keyOf = ({ poolId, unit, window }) => `${poolId}:${unit}:${window}`;

function faded({ curr, prev }, window, now) {
  const elapsed = now - bucketOf(window, now) * WINDOW[window];
  return prev * (1 - elapsed / WINDOW[window]) + curr;
}

export class PlainShare {
  #signals = new Map();

  constructor(db, now) {
    this.now = now;
    const prepare = (sql) => db.prepare(sql);
    this.sql = {
      allocations: prepare('SELECT * FROM quota_allocations WHERE api_key_id = ?'),
      pool: prepare('SELECT * FROM quota_pools WHERE id = ?'),
      members: prepare('SELECT connection_id FROM quota_pool_connections WHERE pool_id = ?'),
      poolAllocations: prepare('SELECT * FROM quota_allocations WHERE pool_id = ? ORDER BY api_key_id'),
      plan: prepare('SELECT * FROM provider_plans WHERE connection_id = ?'),
      bucket: prepare(
        'SELECT consumed FROM quota_consumption WHERE api_key_id = ? AND dimension_key = ? AND bucket_index = ?',
      ),
      totals: prepare(
        `SELECT coalesce(sum(CASE WHEN bucket_index = ? THEN consumed END), 0) AS curr,
         coalesce(sum(CASE WHEN bucket_index = ? THEN consumed END), 0) AS prev
         FROM quota_consumption WHERE dimension_key = ? AND bucket_index IN (?, ?)`,
      ),
      add: prepare(
        `INSERT INTO quota_consumption (api_key_id, dimension_key, bucket_index, consumed, updated_at)
         VALUES (?, ?, ?, ?, ?) ON CONFLICT (api_key_id, dimension_key, bucket_index)
         DO UPDATE SET consumed = consumed + excluded.consumed, updated_at = excluded.updated_at`,
      ),
    };
  }

  getPool(id) {
    const row = this.sql.pool.get(id);
    const connectionIds = this.sql.members.all(id).map((member) => member.connection_id);
    return { ...row, connectionIds, allocations: this.sql.poolAllocations.all(id) };
  }

  #bucket(apiKeyId, key, index) {
    return this.sql.bucket.get(apiKeyId, key, index)?.consumed ?? 0;
  }

  async peek(apiKeyId, dim) {
    const index = bucketOf(dim.window, this.now);
    const key = keyOf(dim);
    const pair = { curr: this.#bucket(apiKeyId, key, index), prev: this.#bucket(apiKeyId, key, index - 1) };
    return faded(pair, dim.window, this.now);
  }

  async poolConsumedTotal(dim) {
    const index = bucketOf(dim.window, this.now);
    return faded(this.sql.totals.get(index, index - 1, keyOf(dim), index, index - 1), dim.window, this.now);
  }

  async saturation(connectionId, { unit, window }) {
    return this.#signals.get(`${connectionId}:${unit}:${window}`) ?? 0;
  }

  async enforce({ apiKeyId, connectionId }) {
    const found = this.sql.allocations
      .all(apiKeyId)
      .map((allocation) => ({ allocation, pool: this.getPool(allocation.pool_id) }))
      .find(({ pool }) => pool.connectionIds.includes(connectionId));
    if (!found) return { kind: 'allow' };
    const { allocation, pool } = found;
    const allZero = pool.allocations.every(({ weight }) => weight === 0);
    const weight = allZero ? 100 / pool.allocations.length : allocation.weight;
    let penalized = false;
    for (const { unit, window, limit } of JSON.parse(this.sql.plan.get(connectionId).dimensions_json)) {
      const dim = { poolId: pool.id, unit, window };
      const used = await this.saturation(connectionId, dim);
      const total = await this.poolConsumedTotal(dim);
      const consumed = await this.peek(apiKeyId, dim);
      const effective = limit * pool.connectionIds.length;
      if (total >= effective) return { kind: 'block', reason: 'global-saturated', httpStatus: 429 };
      const over = consumed >= (weight / 100) * effective;
      if (allocation.policy === 'soft') penalized ||= over;
      if (allocation.policy === 'hard' && over && used >= 0.5) {
        return { kind: 'block', reason: 'fair-share', httpStatus: 429 };
      }
    }
    return { kind: 'allow', deprioritize: penalized };
  }

  async consume(apiKeyId, dim, cost) {
    this.sql.add.run(apiKeyId, keyOf(dim), bucketOf(dim.window, this.now), cost, this.now);
    return this.peek(apiKeyId, dim);
  }

  async usage(poolId, dims) {
    const pool = this.getPool(poolId);
    const dimensions = [];
    for (const { unit, window, limit } of dims) {
      const perKey = [];
      let consumedTotal = 0;
      for (const { api_key_id: apiKeyId, weight } of pool.allocations) {
        const consumed = await this.peek(apiKeyId, { poolId, unit, window });
        const fairShare = (weight / 100) * limit;
        perKey.push({ apiKeyId, consumed, fairShare, deficit: consumed - fairShare, borrowing: consumed > fairShare });
        consumedTotal += consumed;
      }
      dimensions.push({ unit, window, limit, consumedTotal, perKey });
    }
    return { poolId, generatedAt: new Date(this.now).toISOString(), dimensions };
  }

  /** Saturated and full connections last, deficit round robin among the rest, the less busy of the first two. */
  select(targets, state, now) {
    const free = targets.filter(({ connectionId }) => !(state.saturatedUntil.get(connectionId) > now));
    const open = free.filter(({ connectionId }) => this.#inFlight(state, connectionId, now) < 8);
    const weights = open.map(({ weight }) => (weight > 0 ? weight : 1));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    for (const [index, { executionKey }] of open.entries()) {
      state.credit.set(executionKey, (state.credit.get(executionKey) ?? 0) + weights[index] / sum);
    }
    const ranked = [...open].sort((a, b) => state.credit.get(b.executionKey) - state.credit.get(a.executionKey));
    const busy = ({ connectionId }) => this.#inFlight(state, connectionId, now);
    if (ranked.length > 1 && busy(ranked[1]) < busy(ranked[0])) ranked.unshift(ranked.splice(1, 1)[0]);
    const [target] = ranked;
    state.credit.set(target.executionKey, state.credit.get(target.executionKey) - 1);
    const slots = state.slots.get(target.connectionId) ?? [];
    state.slots.set(target.connectionId, [...slots, now + 120_000]);
    const rest = targets.filter((other) => !open.includes(other));
    return { target, ordered: [...ranked, ...rest], release: () => state.slots.get(target.connectionId).pop() };
  }

  #inFlight(state, connectionId, now) {
    const slots = (state.slots.get(connectionId) ?? []).filter((expiresAt) => expiresAt > now);
    state.slots.set(connectionId, slots);
    return slots.length;
  }
}
