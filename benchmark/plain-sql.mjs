// The baseline: what a router does without the engine. Each check prepares its statement and counts rows; each record
// is an insert of its own. Written for this comparison, for the rules that the engine applies.

const MINUTE = 60_000;
const DAY = 86_400_000;
const midnight = (now) => now - (now % DAY);

const INSERT =
  'INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)';

export class PlainSql {
  #leases = new Map();
  #next = 1;

  #prepared = null;

  constructor(db) {
    this.db = db;
  }

  #count({ platform, modelId, keyId }, since) {
    return this.db
      .prepare(
        `SELECT count(*) AS n FROM rate_limit_usage
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'request' AND created_at_ms > ?`,
      )
      .get(platform, modelId, keyId, since).n;
  }

  #tokens({ platform, modelId, keyId }, since) {
    return this.db
      .prepare(
        `SELECT coalesce(sum(tokens), 0) AS n FROM rate_limit_usage
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ?`,
      )
      .get(platform, modelId, keyId, since).n;
  }

  #accountCount(platform, keyId, since) {
    return this.db
      .prepare(
        `SELECT count(*) AS n FROM rate_limit_usage
         WHERE platform = ? AND key_id = ? AND kind = 'request' AND created_at_ms > ?`,
      )
      .get(platform, keyId, since).n;
  }

  #flying(matches, now) {
    let count = 0;
    let tokens = 0;
    for (const [id, lease] of this.#leases) {
      if (now - lease.createdAt > 2 * MINUTE) this.#leases.delete(id);
      else if (matches(lease)) {
        count++;
        tokens += lease.tokens;
      }
    }
    return { count, tokens };
  }

  #ofRoute(route, now) {
    return this.#flying(
      (lease) => lease.platform === route.platform && lease.modelId === route.modelId && lease.keyId === route.keyId,
      now,
    );
  }

  canMakeRequest(route, limits, now) {
    const { count } = this.#ofRoute(route, now);
    if (limits.rpm !== null && this.#count(route, now - MINUTE) + count >= limits.rpm) return false;
    return limits.rpd === null || this.#count(route, midnight(now)) + count < limits.rpd;
  }

  canUseTokens(route, estimate, limits, now) {
    const { tokens } = this.#ofRoute(route, now);
    if (limits.tpm !== null && this.#tokens(route, now - MINUTE) + tokens + estimate > limits.tpm) return false;
    return limits.tpd === null || this.#tokens(route, midnight(now)) + tokens + estimate <= limits.tpd;
  }

  canUseProvider({ platform, keyId }, cap, now) {
    const { count } = this.#flying((lease) => lease.platform === platform && lease.keyId === keyId, now);
    return this.#accountCount(platform, keyId, midnight(now)) + count < cap;
  }

  isOnCooldown({ platform, modelId, keyId }, now) {
    const row = this.db
      .prepare(
        'SELECT expires_at_ms AS at FROM rate_limit_cooldowns WHERE platform = ? AND model_id = ? AND key_id = ?',
      )
      .get(platform, modelId, keyId);
    return row !== undefined && row.at >= now;
  }

  setCooldown({ platform, modelId, keyId }, durationMs, source, now) {
    this.db
      .prepare(
        `INSERT INTO rate_limit_cooldowns (platform, model_id, key_id, expires_at_ms, source, set_at_ms)
         VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET expires_at_ms = excluded.expires_at_ms, source = excluded.source,
           set_at_ms = excluded.set_at_ms`,
      )
      .run(platform, modelId, keyId, now + durationMs, source, now);
  }

  /** The part of a cooldown decision that reads the database: is a daily limit used up? */
  dailyExhausted(route, { rpd, tpd }, now) {
    if (rpd !== null && this.#count(route, midnight(now)) >= rpd) return true;
    return tpd !== null && this.#tokens(route, midnight(now)) >= tpd;
  }

  acquireLease(route, tokens, now) {
    const id = this.#next++;
    this.#leases.set(id, { ...route, tokens, createdAt: now });
    return id;
  }

  releaseLease(id) {
    this.#leases.delete(id);
  }

  #insert({ platform, modelId, keyId }, kind, tokens, now) {
    this.db.prepare(INSERT).run(platform, modelId, keyId, kind, tokens, now);
  }

  recordRequest(route, now) {
    this.#insert(route, 'request', 0, now);
  }

  recordTokens(route, tokens, now) {
    this.#insert(route, 'tokens', tokens, now);
  }

  /** Both rows in one commit, with statements that are prepared once: the least that the file costs. */
  recordInOneCommit({ platform, modelId, keyId }, tokens, now) {
    if (this.#prepared === null) {
      const insert = this.db.prepare(INSERT);
      this.#prepared = this.db.transaction((rows) => {
        for (const row of rows) insert.run(row);
      });
    }
    this.#prepared([
      [platform, modelId, keyId, 'request', 0, now],
      [platform, modelId, keyId, 'tokens', tokens, now],
    ]);
  }
}
