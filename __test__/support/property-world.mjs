// The world of the property test: one host, one instance and the naive model, driven by random operations that are
// applied to both sides. An operation that asks something compares the two answers at once.
import assert from 'node:assert/strict';
import { openDatabase } from './driver.mjs';
import { DAY, HOUR, Host, MINUTE } from './host.mjs';
import { NaiveModel } from './naive-model.mjs';

const PLATFORMS = ['openrouter', 'navy', 'nvidia', 'groq'];
const MODELS = ['a:b', 'm', 'm:1'];
const KEYS = [1, 2, 11];
const SOURCES = ['heuristic', 'heuristic', 'authoritative', 'credit', 'tier'];
const NAVY_MULTIPLIERS = { 'a:b': 2, m: 1.5, 'm:1': 1 };
const LEARNED = {
  rpm: 'requests per minute',
  rpd: 'requests per day',
  tpm: 'tokens per minute',
  tpd: 'tokens per day',
};
const TRAIL = 20;

export class World {
  /**
   * @param {import('node:test').TestContext} t
   * @param {import('./random.mjs').Random} random
   * @param {object} coreOptions options of the instance
   */
  constructor(t, random, coreOptions) {
    this.random = random;
    this.host = new Host(t, { core: coreOptions });
    this.coreOptions = coreOptions;
    this.model = new NaiveModel();
    this.gone = 'closed handle';
    this.extraColumns = 0;
    this.trail = [];
    this.caps = { day: 30, minute: 40, tokens: 5000 };
    this.applyCaps();
    this.other = openDatabase(this.host.file);
    t.after(() => this.other.close());
    this.seedModels();
  }

  seedModels() {
    for (const [modelId, multiplier] of Object.entries(NAVY_MULTIPLIERS)) {
      this.host.addModel('navy', modelId, { monthly_token_budget: multiplier === 1 ? '' : `${multiplier}x` });
    }
    for (const modelId of MODELS) this.host.addModel('groq', modelId);
    for (const row of this.host.all(
      "SELECT id, rpm_limit, rpd_limit, tpm_limit, tpd_limit FROM models WHERE platform = 'groq'",
    )) {
      this.model.tables.models.set(row.id, row);
    }
    this.modelIds = [...this.model.tables.models.keys()];
  }

  applyCaps() {
    const { day, minute, tokens } = this.caps;
    this.host.env.PROVIDER_DAILY_REQUEST_CAP_OPENROUTER = String(day);
    this.host.env.PROVIDER_MINUTE_REQUEST_CAP_NVIDIA = String(minute);
    this.host.env.PROVIDER_DAILY_TOKEN_CAP_NAVY = String(tokens);
  }

  cap(axis, platform) {
    const capped = { day: 'openrouter', minute: 'nvidia', tokens: 'navy' };
    const defaults = { day: { modelscope: 1800 }, minute: {}, tokens: {} };
    return platform === capped[axis] ? this.caps[axis] : (defaults[axis][platform] ?? null);
  }

  multiplier(platform) {
    return platform === 'navy' ? (modelId) => NAVY_MULTIPLIERS[modelId] : () => 1;
  }

  get core() {
    return this.host.core;
  }

  get now() {
    return this.host.now;
  }

  get inTransaction() {
    return this.model.saved.length > 0;
  }

  note(...what) {
    this.trail.push(what.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
    if (this.trail.length > TRAIL) this.trail.shift();
  }

  same(actual, expected) {
    assert.deepEqual(actual, expected);
  }

  route() {
    return [this.random.pick(PLATFORMS), this.random.pick(MODELS), this.random.pick(KEYS)];
  }

  limits() {
    const axis = (low, high) => (this.random.chance(0.3) ? null : this.random.int(low, high));
    return { rpm: axis(0, 6), rpd: axis(0, 25), tpm: axis(0, 600), tpd: axis(0, 4000) };
  }

  /** Time mostly creeps, sometimes jumps to where a window ends, and now and then steps back. */
  tick() {
    const { random } = this;
    const jump = random.weighted({ creep: 180, minutes: 16, hours: 4, boundary: 2, back: 1 });
    const midnight = Math.ceil(this.now / DAY) * DAY;
    this.host.now = {
      creep: () => this.now + random.int(0, 2000),
      minutes: () => this.now + random.int(0, 3 * MINUTE),
      hours: () => this.now + random.int(0, 2 * HOUR),
      boundary: () =>
        random.pick([midnight, midnight + 1, this.now + MINUTE, this.now + 2 * MINUTE, this.now + 2 * MINUTE + 1]),
      back: () => this.now - random.int(1, 2 * MINUTE),
    }[jump]();
  }

  // Every question about usage at once: the cheapest way to notice that any of them went astray.
  compareUsage() {
    const [platform, modelId, keyId] = this.route();
    const limits = this.limits();
    this.note('usage', platform, modelId, keyId, limits);
    const { core, model, now } = this;
    this.same(
      core.getRateLimitStatus(platform, modelId, keyId, limits),
      model.getRateLimitStatus(platform, modelId, keyId, limits, now),
    );
    this.same(
      core.canMakeRequest(platform, modelId, keyId, limits),
      model.canMakeRequest(platform, modelId, keyId, limits, now),
    );
    const estimate = this.random.int(0, 300);
    this.same(
      core.canUseTokens(platform, modelId, keyId, estimate, limits),
      model.canUseTokens(platform, modelId, keyId, estimate, limits, now),
    );
  }

  compareAccount() {
    const [platform, modelId, keyId] = this.route();
    this.note('account', platform, modelId, keyId);
    const { core, model, now } = this;
    const multiplier = this.multiplier(platform);
    this.same(core.providerDailyRequestCount(platform, keyId), model.providerDailyRequestCount(platform, keyId, now));
    this.same(core.providerMinuteRequestCount(platform, keyId), model.providerMinuteRequestCount(platform, keyId, now));
    this.same(core.inFlightForKey(platform, keyId), model.keyLeases(platform, keyId, now).length);
    this.same(
      core.canUseProvider(platform, keyId),
      model.canUseProvider(platform, keyId, now, this.cap('day', platform)),
    );
    this.same(
      core.canUseProviderMinute(platform, keyId),
      model.canUseProviderMinute(platform, keyId, now, this.cap('minute', platform)),
    );
    // What a model's tokens are billed at is read from its row: without a database it is 1.
    const billed = model.open ? multiplier : () => 1;
    this.same(
      core.providerDailyTokenCount(platform, keyId),
      model.providerDailyTokenCount(platform, keyId, now, billed),
    );
    const estimate = this.random.int(0, 3000);
    this.same(
      core.canUseProviderTokens(platform, keyId, modelId, estimate),
      model.canUseProviderTokens(platform, keyId, modelId, estimate, now, this.cap('tokens', platform), billed),
    );
  }

  /** The tables themselves: nothing lost, nothing invented. */
  compareTables() {
    if (!this.model.open) return;
    const { tables } = this.model;
    const usage = this.host.all(
      'SELECT platform, model_id AS modelId, key_id AS keyId, kind, tokens, created_at_ms AS at FROM rate_limit_usage',
    );
    this.same(sorted(usage), sorted(tables.usage));
    const cooldowns = this.host.all(
      'SELECT platform, model_id AS modelId, key_id AS keyId, expires_at_ms AS expires, source, set_at_ms AS setAt FROM rate_limit_cooldowns',
    );
    this.same(sorted(cooldowns), sorted([...tables.cooldowns.values()]));
    const models = this.host.all(
      "SELECT id, rpm_limit, rpd_limit, tpm_limit, tpd_limit FROM models WHERE platform = 'groq'",
    );
    this.same(models, [...tables.models.values()]);
  }

  record() {
    const [platform, modelId, keyId] = this.route();
    const tokens = this.random.int(0, 200);
    this.note('record', platform, modelId, keyId, tokens);
    this.core.recordRequest(platform, modelId, keyId);
    this.model.record('request', platform, modelId, keyId, 0, this.now);
    if (this.random.chance(0.3)) return;
    this.core.recordTokens(platform, modelId, keyId, tokens);
    this.model.record('tokens', platform, modelId, keyId, tokens, this.now);
  }

  lease() {
    const [platform, modelId, keyId] = this.route();
    const tokens = this.random.int(0, 300);
    this.note('lease', platform, modelId, keyId, tokens);
    this.same(
      this.core.acquireLease(platform, modelId, keyId, tokens),
      this.model.acquireLease(platform, modelId, keyId, tokens, this.now),
    );
  }

  release() {
    const id = this.random.chance(0.05)
      ? this.random.int(-2, 9999)
      : this.random.pick([...this.model.leases.keys(), 0]);
    this.note('release', id);
    this.core.releaseLease(id);
    this.model.leases.delete(id);
  }

  setCooldown() {
    const [platform, modelId, keyId] = this.route();
    const duration = this.random.pick([0, 1000, 30_000, 90_000, 10 * MINUTE, HOUR]) + this.random.int(0, 999);
    const source = this.random.pick(SOURCES);
    this.note('setCooldown', platform, modelId, keyId, duration, source);
    this.core.setCooldown(platform, modelId, keyId, duration, source);
    this.model.setCooldown(platform, modelId, keyId, duration, source, this.now);
  }

  compareCooldown() {
    const route = this.route();
    this.note('isOnCooldown', ...route);
    this.same(this.core.isOnCooldown(...route), this.model.isOnCooldown(...route, this.now));
    this.same(this.core.recentHitCount(...route, this.now), this.model.recentHitCount(...route, this.now));
  }

  /** The lists read the table alone, so there is something to compare only while it is there. */
  compareCooldownLists() {
    if (!this.model.open) return;
    this.note('cooldown lists');
    const { core, model, now } = this;
    this.same(sorted(core.getProbeableCooldowns()), sorted(model.getProbeableCooldowns(now)));
    const keys = [this.random.pick(KEYS), this.random.pick(KEYS), 99, 1.5];
    const [actual, expected] = [core.getActiveCooldownsForKeys(keys), model.getActiveCooldownsForKeys(keys, now)];
    this.same(new Set(actual.keys()), new Set(expected.keys()));
    for (const [keyId, list] of actual) {
      this.same(sorted(list), sorted(expected.get(keyId)));
      this.same(
        list.map((entry) => entry.remainingMs),
        expected.get(keyId).map((entry) => entry.remainingMs),
      );
    }
    this.same(core.getSoonestCooldownExpiry(), model.getSoonestCooldownExpiry(now));
  }

  decide() {
    const [platform, modelId, keyId] = this.route();
    const { rpd, tpd } = this.limits();
    const retryAfter = this.random.pick([undefined, undefined, 5000, 200_000, 2 * DAY]);
    const quotaSignal = this.random.chance(0.7);
    this.note('decide', platform, modelId, keyId, { rpd, tpd }, String(retryAfter), quotaSignal);
    this.same(
      this.core.getCooldownDecisionForLimit(platform, modelId, keyId, { rpd, tpd }, retryAfter, { quotaSignal }),
      this.model.getCooldownDecisionForLimit(platform, modelId, keyId, { rpd, tpd }, retryAfter, quotaSignal, this.now),
    );
  }

  ladder() {
    const route = this.route();
    this.note('ladder', ...route);
    this.same(this.core.getNextCooldownDuration(...route), this.model.getNextCooldownDuration(...route, this.now));
  }

  clearCooldown() {
    const route = this.route();
    this.note('clearCooldownEarly', ...route);
    this.core.clearCooldownEarly(...route);
    this.model.clearCooldownEarly(...route);
  }

  clearKey() {
    if (!this.model.open) return;
    const keyId = this.random.pick(KEYS);
    this.note('clearCooldownsForKey', keyId);
    this.same(this.core.clearCooldownsForKey(keyId), this.model.clearCooldownsForKey(keyId));
  }

  cleanup() {
    if (!this.model.open) return;
    this.note('cleanupExpiredCooldowns');
    this.same(this.core.cleanupExpiredCooldowns(), this.model.cleanupExpiredCooldowns(this.now));
  }

  learn() {
    if (!this.model.open) return;
    const id = this.random.pick(this.modelIds);
    const kind = this.random.pick(Object.keys(LEARNED));
    const limit = this.random.int(1, 1000);
    this.note('learn', id, kind, limit);
    const expected = this.model.learn(id, `${kind}_limit`, limit) ? { kind, limit } : null;
    this.same(
      this.core.learnLimitFromError(id, {
        message: `Rate limit reached on ${LEARNED[kind]}. Limit: ${limit}, used: 3`,
      }),
      expected,
    );
  }

  changeCaps() {
    this.caps = { day: this.random.int(1, 60), minute: this.random.int(1, 20), tokens: this.random.int(100, 9000) };
    this.note('caps', this.caps);
    this.applyCaps();
  }

  transaction() {
    if (!this.model.open) return;
    const { model, host, random } = this;
    const depth = model.saved.length;
    const step =
      depth === 0
        ? random.pick(['BEGIN', 'BEGIN', 'BEGIN IMMEDIATE', 'SAVEPOINT s0'])
        : random.pick([
            'COMMIT',
            'COMMIT',
            'ROLLBACK',
            'ROLLBACK',
            `SAVEPOINT s${depth}`,
            `SAVEPOINT s${depth}`,
            ...this.savepointSteps(),
          ]);
    this.note(step);
    host.sql(step);
    if (step.startsWith('BEGIN') || step.startsWith('SAVEPOINT')) {
      this.outermostIsSavepoint = depth === 0 ? step.startsWith('SAVEPOINT') : this.outermostIsSavepoint;
      model.begin();
    } else if (step === 'COMMIT') model.commit();
    else if (step === 'ROLLBACK') model.rollback();
    else if (step.startsWith('RELEASE')) model.release();
    else model.rollbackTo();
    if (random.chance(0.2)) this.compareTables();
  }

  savepointSteps() {
    const innermost = this.model.saved.length - 1;
    if (innermost === 0 && !this.outermostIsSavepoint) return [];
    return [`RELEASE s${innermost}`, `ROLLBACK TO s${innermost}`];
  }

  /** Ends whatever transaction is open, so that it does not last for most of the run. */
  endTransaction() {
    if (!this.inTransaction) return;
    const step = this.random.pick(['COMMIT', 'ROLLBACK']);
    this.note(step);
    this.host.sql(step);
    if (step === 'COMMIT') this.model.commit();
    else this.model.rollback();
  }

  /** The host's own statements on the tables we count, from its connection or, outside a transaction, another one. */
  hostSql() {
    if (!this.model.open) return;
    const { random, model, now } = this;
    const db = !this.inTransaction && random.chance(0.3) ? this.other : this.host.db;
    const [platform, modelId, keyId] = this.route();
    const run = (sql, ...params) => db.prepare(sql).run(...params);
    const where = 'platform = ? AND model_id = ? AND key_id = ?';
    const ofRoute = (row) => row.platform === platform && row.modelId === modelId && row.keyId === keyId;
    const { tables } = model;
    const statements = {
      insert: () => {
        const row = {
          platform,
          modelId,
          keyId,
          kind: random.pick(['request', 'tokens']),
          tokens: random.int(0, 99),
          at: now - random.int(-5000, 2 * MINUTE),
        };
        run(
          'INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)',
          ...Object.values(row),
        );
        tables.usage.push(row);
      },
      remove: () => {
        run(`DELETE FROM rate_limit_usage WHERE ${where}`, platform, modelId, keyId);
        tables.usage = tables.usage.filter((row) => !ofRoute(row));
      },
      update: () => {
        run(
          `UPDATE rate_limit_usage SET tokens = tokens + 7, created_at_ms = created_at_ms - 1000 WHERE ${where}`,
          platform,
          modelId,
          keyId,
        );
        tables.usage = tables.usage.map((row) =>
          ofRoute(row) ? { ...row, tokens: row.tokens + 7, at: row.at - 1000 } : row,
        );
      },
      truncate: () => {
        run('DELETE FROM rate_limit_usage');
        tables.usage = [];
      },
      bench: () => {
        const row = {
          platform,
          modelId,
          keyId,
          expires: now + random.int(-1000, 60_000),
          source: 'heuristic',
          setAt: null,
        };
        run(
          'INSERT OR REPLACE INTO rate_limit_cooldowns (platform, model_id, key_id, expires_at_ms, source, set_at_ms) VALUES (?, ?, ?, ?, ?, ?)',
          ...Object.values(row),
        );
        tables.cooldowns.set(JSON.stringify([platform, modelId, keyId]), row);
      },
      unbench: () => {
        run(`DELETE FROM rate_limit_cooldowns WHERE ${where}`, platform, modelId, keyId);
        tables.cooldowns.delete(JSON.stringify([platform, modelId, keyId]));
      },
    };
    const name = random.weighted({ insert: 10, remove: 3, update: 4, truncate: 0.5, bench: 3, unbench: 3 });
    this.note('host', db === this.other ? 'elsewhere' : 'here', name, platform, modelId, keyId);
    statements[name]();
  }

  /** Schema changes: none of them may make a count stale or cost the connection. */
  ddl() {
    if (!this.model.open) return;
    const statements = {
      index: 'CREATE INDEX IF NOT EXISTS extra ON rate_limit_usage (created_at_ms)',
      noIndex: 'DROP INDEX IF EXISTS extra',
      table: 'CREATE TABLE IF NOT EXISTS scratch (x)',
      noTable: 'DROP TRIGGER IF EXISTS noting; DROP TABLE IF EXISTS scratch',
      trigger:
        'CREATE TABLE IF NOT EXISTS scratch (x); CREATE TRIGGER IF NOT EXISTS noting AFTER INSERT ON rate_limit_usage BEGIN INSERT INTO scratch VALUES (new.id); END',
      noTrigger: 'DROP TRIGGER IF EXISTS noting',
      analyze: 'ANALYZE',
      version: `PRAGMA user_version = ${this.random.int(0, 99)}`,
      column: `ALTER TABLE rate_limit_usage ADD COLUMN extra${this.extraColumns}`,
      vacuum: 'VACUUM',
      checkpoint: 'PRAGMA wal_checkpoint(TRUNCATE)',
      recreate:
        'DROP TABLE IF EXISTS copied; CREATE TABLE copied AS SELECT * FROM rate_limit_usage; DELETE FROM rate_limit_usage; INSERT INTO rate_limit_usage SELECT * FROM copied',
    };
    const name = this.random.pick(Object.keys(statements));
    if (this.inTransaction && ['vacuum', 'checkpoint'].includes(name)) return;
    if (name === 'column' && (this.inTransaction || this.extraColumns === 20)) return;
    if (name === 'column') this.extraColumns += 1;
    this.note('ddl', name);
    this.host.sql(statements[name]);
  }

  /** Calls made while a statement of the host is being stepped. */
  midStatement() {
    if (!this.model.open) return;
    this.note('mid-statement');
    for (const row of this.host.db.prepare('SELECT id FROM rate_limit_usage LIMIT 2').iterate()) {
      assert.ok(row.id > 0);
      this.compareUsage();
      this.record();
      this.compareUsage();
    }
  }

  closeOrReopen() {
    if (this.model.open) {
      this.gone = this.random.pick(['closed handle', 'nothing']);
      this.note('close', this.gone);
      this.host.close();
      if (this.gone === 'nothing') this.host.db = null;
      this.model.close();
    } else {
      this.note('reopen');
      this.host.open();
      this.model.reopen();
      this.compareTables();
    }
  }

  restart() {
    const fresh = this.random.chance(0.5);
    this.note(fresh ? 'new instance' : 'reset');
    if (fresh) {
      this.core.close();
      this.host.core = this.host.createCore(this.coreOptions);
    } else {
      this.core.reset();
    }
    this.model.forget();
  }

  /** One random operation. */
  step() {
    this.tick();
    const open = this.model.open;
    const operation = this.random.weighted({
      record: 240,
      compareUsage: 240,
      compareAccount: 110,
      lease: 60,
      release: 50,
      setCooldown: 40,
      compareCooldown: 90,
      compareCooldownLists: 20,
      decide: 40,
      ladder: 10,
      clearCooldown: 10,
      clearKey: 6,
      cleanup: 6,
      learn: 10,
      changeCaps: 4,
      hostSql: 60,
      transaction: 20,
      endTransaction: 12,
      ddl: 2,
      midStatement: 6,
      closeOrReopen: open ? 2 : 30,
      restart: 1,
      compareTables: 2,
    });
    this[operation]();
  }
}

// Rows in an order of their own, whatever order they came in.
function sorted(rows) {
  return rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
}
