// The naive model of the property test: lists that are filtered at every question, no cache, no SQL. Corrected mode only.
import { DAY, HOUR, MINUTE } from '../host.mjs';

const LEASE_MS = 2 * MINUTE;
const LADDER = [2 * MINUTE, 10 * MINUTE, HOUR, DAY];
const UNKNOWN_BENCH_MS = 90_000;

const utcMidnight = (now) => Math.floor(now / DAY) * DAY;
const routeKey = (platform, modelId, keyId) => JSON.stringify([platform, modelId, keyId]);
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The tables. Rows are never changed in place, so that a snapshot is a copy of the lists. */
class Tables {
  constructor() {
    this.usage = [];
    this.cooldowns = new Map();
    this.models = new Map();
  }

  copy() {
    const copy = new Tables();
    copy.usage = [...this.usage];
    copy.cooldowns = new Map(this.cooldowns);
    copy.models = new Map(this.models);
    return copy;
  }
}

export class NaiveModel {
  constructor() {
    this.tables = new Tables();
    this.saved = [];
    this.open = true;
    // Whether the connection refuses to write; what it refused, and what was noted without a connection.
    this.refuses = false;
    this.refused = [];
    this.away = [];
    this.memoryCooldowns = new Map();
    this.leases = new Map();
    this.lastLease = 0;
    this.lastPrune = -Infinity;
    this.ladderHits = new Map();
    this.unknownHits = new Map();
  }

  // The host's transactions: the outermost level is the transaction, the others savepoints.
  begin() {
    this.saved.push(this.tables.copy());
  }

  commit() {
    this.saved = [];
  }

  release() {
    this.saved.pop();
  }

  /** Back to the innermost level, which stays open (ROLLBACK TO). */
  rollbackTo() {
    this.tables = this.saved.at(-1).copy();
  }

  rollback() {
    this.tables = this.saved[0];
    this.saved = [];
  }

  close() {
    if (this.saved.length > 0) this.rollback();
    this.open = false;
  }

  /** The database answers again and counts alone; what it never got is known only while it is away again. */
  reopen() {
    this.open = true;
  }

  /** As after a restart of the process, with the database as it is. Ids go on within one instance. */
  forget({ fresh }) {
    Object.assign(this, {
      refused: [],
      away: [],
      memoryCooldowns: new Map(),
      leases: new Map(),
      lastLease: fresh ? 0 : this.lastLease,
      lastPrune: -Infinity,
      ladderHits: new Map(),
      unknownHits: new Map(),
    });
  }

  // Usage

  record(kind, platform, modelId, keyId, tokens, now) {
    const row = { platform, modelId, keyId, kind, tokens, at: now };
    if (!this.open) this.away = [...this.away, row].filter(({ at }) => at > now - DAY);
    else if (this.refuses) this.refused.push(row);
    else this.insert(row, now);
    if (kind === 'request') {
      this.ladderHits.delete(routeKey(platform, modelId, keyId));
      this.unknownHits.delete(routeKey(platform, modelId, keyId));
    }
  }

  /** A row that the database took brings along what it refused before, unless the host could still roll it back. */
  insert(row, now) {
    this.tables.usage.push(row);
    if (this.saved.length === 0) {
      this.tables.usage.push(...this.refused.filter(({ at }) => at > now - DAY));
      this.refused = [];
    }
    if (now - this.lastPrune >= MINUTE || now < this.lastPrune) {
      this.lastPrune = now;
      this.tables.usage = this.tables.usage.filter(({ at }) => at > now - DAY);
    }
  }

  events(kind, platform, modelId, keyId) {
    return [...(this.open ? this.tables.usage : this.away), ...this.refused].filter(
      (row) =>
        row.kind === kind &&
        row.platform === platform &&
        row.keyId === keyId &&
        (modelId === null || row.modelId === modelId),
    );
  }

  minute(kind, platform, modelId, keyId, now) {
    return this.events(kind, platform, modelId, keyId).filter(({ at }) => at > now - MINUTE);
  }

  day(kind, platform, modelId, keyId, now) {
    return this.events(kind, platform, modelId, keyId).filter(({ at }) => at >= utcMidnight(now));
  }

  used(platform, modelId, keyId, now) {
    const tokens = (rows) => sum(rows.map((row) => row.tokens));
    return {
      rpm: this.minute('request', platform, modelId, keyId, now).length,
      rpd: this.day('request', platform, modelId, keyId, now).length,
      tpm: tokens(this.minute('tokens', platform, modelId, keyId, now)),
      tpd: tokens(this.day('tokens', platform, modelId, keyId, now)),
    };
  }

  getRateLimitStatus(platform, modelId, keyId, limits, now) {
    const used = this.used(platform, modelId, keyId, now);
    return Object.fromEntries(Object.keys(used).map((axis) => [axis, { used: used[axis], limit: limits[axis] }]));
  }

  canMakeRequest(platform, modelId, keyId, limits, now) {
    const used = this.used(platform, modelId, keyId, now);
    const inFlight = this.routeLeases(platform, modelId, keyId, now).length;
    return ['rpm', 'rpd'].every((axis) => limits[axis] === null || used[axis] + inFlight < limits[axis]);
  }

  canUseTokens(platform, modelId, keyId, estimate, limits, now) {
    const used = this.used(platform, modelId, keyId, now);
    const inFlight = sum(this.routeLeases(platform, modelId, keyId, now).map((lease) => lease.tokens));
    return ['tpm', 'tpd'].every((axis) => limits[axis] === null || used[axis] + inFlight + estimate <= limits[axis]);
  }

  // Leases

  acquireLease(platform, modelId, keyId, tokens, now) {
    this.lastLease += 1;
    this.leases.set(this.lastLease, { platform, modelId, keyId, tokens, at: now });
    return this.lastLease;
  }

  keyLeases(platform, keyId, now) {
    for (const [id, lease] of this.leases) if (now - lease.at > LEASE_MS) this.leases.delete(id);
    return [...this.leases.values()].filter((lease) => lease.platform === platform && lease.keyId === keyId);
  }

  routeLeases(platform, modelId, keyId, now) {
    return this.keyLeases(platform, keyId, now).filter((lease) => lease.modelId === modelId);
  }

  // Account-wide counts and caps

  providerDailyRequestCount(platform, keyId, now) {
    return this.day('request', platform, null, keyId, now).length;
  }

  providerMinuteRequestCount(platform, keyId, now) {
    return this.minute('request', platform, null, keyId, now).length;
  }

  /** Counted only where a cap is known; `multiplier(modelId)` is what one token of the model is billed at. */
  providerDailyTokenCount(platform, keyId, now, cap, multiplier) {
    if (cap === null) return 0;
    const rows = this.day('tokens', platform, null, keyId, now);
    const perModel = [...new Set(rows.map((row) => row.modelId))].map((modelId) => {
      const tokens = sum(rows.filter((row) => row.modelId === modelId).map((row) => row.tokens));
      return Math.ceil(tokens * multiplier(modelId));
    });
    return sum(perModel);
  }

  canUseProvider(platform, keyId, now, cap) {
    return (
      cap === null ||
      this.providerDailyRequestCount(platform, keyId, now) + this.keyLeases(platform, keyId, now).length < cap
    );
  }

  canUseProviderMinute(platform, keyId, now, cap) {
    return (
      cap === null ||
      this.providerMinuteRequestCount(platform, keyId, now) + this.keyLeases(platform, keyId, now).length < cap
    );
  }

  canUseProviderTokens(platform, keyId, modelId, estimate, now, cap, multiplier) {
    if (cap === null) return true;
    const billed = (tokens) => Math.ceil(tokens * multiplier(modelId));
    const inFlight = sum(this.keyLeases(platform, keyId, now).map((lease) => lease.tokens));
    return (
      this.providerDailyTokenCount(platform, keyId, now, cap, multiplier) + billed(inFlight) + billed(estimate) <= cap
    );
  }

  // Cooldowns

  setCooldown(platform, modelId, keyId, durationMs, source, now) {
    const row = { platform, modelId, keyId, expires: now + durationMs, source, setAt: now };
    const key = routeKey(platform, modelId, keyId);
    if (this.open) this.tables.cooldowns.set(key, row);
    this.memoryCooldowns.set(key, { ...row, away: !this.open });
  }

  /** The row speaks first; a bench set while the database was away counts until its own end. */
  isOnCooldown(platform, modelId, keyId, now) {
    const key = routeKey(platform, modelId, keyId);
    const memory = this.memoryCooldowns.get(key);
    const inMemory = memory !== undefined && now <= memory.expires;
    if (!this.open) {
      if (!inMemory) this.memoryCooldowns.delete(key);
      return inMemory;
    }
    const away = memory?.away === true;
    const row = this.tables.cooldowns.get(key);
    if (row && now <= row.expires) {
      if (!(away && inMemory)) this.memoryCooldowns.set(key, { ...row, away: false });
      return true;
    }
    this.tables.cooldowns.delete(key);
    if (!away) this.memoryCooldowns.delete(key);
    return away && inMemory;
  }

  activeRows(now) {
    return [...this.tables.cooldowns.values()].filter((row) => row.expires > now).sort((a, b) => a.expires - b.expires);
  }

  getProbeableCooldowns(now) {
    return this.activeRows(now)
      .filter((row) => row.source === 'heuristic')
      .map(({ platform, modelId, keyId, expires, setAt }) => ({
        platform,
        modelId,
        keyId,
        expiresAtMs: expires,
        setAtMs: setAt,
      }));
  }

  getActiveCooldownsForKeys(keyIds, now) {
    const found = new Map();
    for (const { platform, modelId, keyId, expires } of this.activeRows(now)) {
      if (!keyIds.includes(keyId)) continue;
      if (!found.has(keyId)) found.set(keyId, []);
      found.get(keyId).push({ platform, modelId, keyId, expiresAtMs: expires, remainingMs: expires - now });
    }
    return found;
  }

  getSoonestCooldownExpiry(now) {
    return this.activeRows(now)[0]?.expires ?? null;
  }

  clearCooldownEarly(platform, modelId, keyId) {
    const key = routeKey(platform, modelId, keyId);
    if (this.open) this.tables.cooldowns.delete(key);
    this.memoryCooldowns.delete(key);
  }

  /** The larger of the rows deleted and the benches that only memory had. */
  clearCooldownsForKey(keyId) {
    const ofKey = (map) => [...map.keys()].filter((key) => JSON.parse(key)[2] === keyId);
    const rows = ofKey(this.tables.cooldowns);
    const away = ofKey(this.memoryCooldowns).filter((key) => this.memoryCooldowns.get(key).away);
    for (const key of rows) this.tables.cooldowns.delete(key);
    for (const map of [this.memoryCooldowns, this.ladderHits, this.unknownHits]) {
      for (const key of ofKey(map)) map.delete(key);
    }
    return Math.max(rows.length, away.length);
  }

  cleanupExpiredCooldowns(now) {
    const expired = [...this.tables.cooldowns].filter(([, row]) => row.expires <= now);
    for (const [key] of expired) this.tables.cooldowns.delete(key);
    for (const [key, row] of this.memoryCooldowns) if (row.expires <= now) this.memoryCooldowns.delete(key);
    return expired.length;
  }

  hit(hits, key, now, windowMs) {
    const kept = [...(hits.get(key) ?? []), now].filter((at) => at > now - windowMs);
    hits.set(key, kept);
    return kept.length;
  }

  getNextCooldownDuration(platform, modelId, keyId, now) {
    const hits = this.hit(this.ladderHits, routeKey(platform, modelId, keyId), now, DAY);
    return LADDER[Math.min(hits, LADDER.length) - 1];
  }

  recentHitCount(platform, modelId, keyId, now) {
    return (this.unknownHits.get(routeKey(platform, modelId, keyId)) ?? []).filter((at) => at > now - HOUR).length;
  }

  getCooldownDecisionForLimit(platform, modelId, keyId, { rpd, tpd }, retryAfterMs, quotaSignal, now) {
    const used = this.used(platform, modelId, keyId, now);
    let bench = UNKNOWN_BENCH_MS;
    if ((rpd !== null && used.rpd >= rpd) || (tpd !== null && used.tpd >= tpd)) {
      bench = this.getNextCooldownDuration(platform, modelId, keyId, now);
    } else if (
      rpd === null &&
      tpd === null &&
      quotaSignal &&
      this.hit(this.unknownHits, routeKey(platform, modelId, keyId), now, HOUR) >= 2
    ) {
      bench = Math.min(this.getNextCooldownDuration(platform, modelId, keyId, now), 10 * MINUTE);
    }
    if (retryAfterMs !== undefined && retryAfterMs > bench) {
      return { durationMs: Math.min(retryAfterMs, DAY), source: 'authoritative' };
    }
    return { durationMs: bench, source: 'heuristic' };
  }

  /** Lowers one column of the model's row. */
  learn(modelDbId, column, limit) {
    const row = this.tables.models.get(modelDbId);
    if (!row || (row[column] !== null && row[column] <= limit)) return false;
    this.tables.models.set(modelDbId, { ...row, [column]: limit });
    return true;
  }
}
