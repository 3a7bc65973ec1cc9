// Questions of the stress test: each asks an instance, and says what SQL on the host's own connection answers.
import { DAY, MINUTE } from '../host.mjs';
import { KEYS, MODELS, PLATFORMS } from './statements.mjs';

const ROUTE = 'FROM rate_limit_usage WHERE platform = ? AND model_id = ? AND key_id = ?';
const ACCOUNT = 'FROM rate_limit_usage WHERE platform = ? AND key_id = ?';

const SQL = {
  requests: `SELECT COUNT(*) AS n ${ROUTE} AND kind = 'request' AND created_at_ms > ?`,
  tokens: `SELECT COALESCE(SUM(tokens), 0) AS n ${ROUTE} AND kind = 'tokens' AND created_at_ms > ?`,
  accountRequests: `SELECT COUNT(*) AS n ${ACCOUNT} AND kind = 'request' AND created_at_ms > ?`,
  accountTokens: `SELECT model_id, SUM(tokens) AS n ${ACCOUNT} AND kind = 'tokens' AND created_at_ms > ? GROUP BY model_id`,
  budget: 'SELECT monthly_token_budget AS label FROM models WHERE platform = ? AND model_id = ? ORDER BY id LIMIT 1',
  bench: 'SELECT expires_at_ms AS n FROM rate_limit_cooldowns WHERE platform = ? AND model_id = ? AND key_id = ?',
  rpm: 'SELECT provider_rpm_limit AS n FROM api_keys WHERE id = ?',
  rpd: 'SELECT provider_rpd_limit AS n FROM api_keys WHERE id = ?',
  tpd: 'SELECT provider_tpd_limit AS n FROM api_keys WHERE id = ?',
  keys: "SELECT id FROM api_keys WHERE platform = ? AND enabled = 1 AND status IN ('healthy', 'unknown')",
};

/** What the environment of the instances says. */
export const PUBLISHED = { rpd: 40, rpm: 12, tpd: 9000 };
export const ENV = {
  PROVIDER_DAILY_REQUEST_CAP_GROQ: String(PUBLISHED.rpd),
  PROVIDER_MINUTE_REQUEST_CAP_GROQ: String(PUBLISHED.rpm),
  PROVIDER_DAILY_TOKEN_CAP_NAVY: String(PUBLISHED.tpd),
};

/** Plain SQL on one connection, at one instant. */
export class Oracle {
  constructor(db) {
    this.db = db;
    this.statements = new Map();
  }

  statement(name) {
    let statement = this.statements.get(name);
    if (statement === undefined) {
      statement = this.db.prepare(SQL[name]);
      this.statements.set(name, statement);
    }
    return statement;
  }

  number(name, ...params) {
    return this.statement(name).get(...params)?.n ?? null;
  }

  used(route, now, slidingDay) {
    const day = slidingDay ? now - DAY : midnight(now);
    return {
      rpm: this.number('requests', ...route, now - MINUTE),
      rpd: this.number('requests', ...route, day),
      tpm: this.number('tokens', ...route, now - MINUTE),
      tpd: this.number('tokens', ...route, day),
    };
  }

  accountRequests([platform, , keyId], after) {
    return this.number('accountRequests', platform, keyId, after);
  }

  /** What the account's tokens of the UTC day are billed at; 0 without a cap. */
  billed([platform, , keyId], now) {
    if (this.cap('tpd', platform, keyId) === null) return 0;
    let sum = 0;
    for (const { model_id: model, n } of this.statement('accountTokens').all(platform, keyId, midnight(now))) {
      if (n > 0) sum += Math.ceil(n * (platform === 'navy' ? this.multiplier(platform, model) : 1));
    }
    return sum;
  }

  multiplier(platform, model) {
    const label = this.statement('budget').get(platform, model)?.label ?? '';
    return label === '' ? 1 : Number(label.slice(0, -1));
  }

  cap(axis, platform, keyId) {
    const own = this.number(axis, keyId);
    if (own !== null) return own === 0 ? null : own;
    return (platform === 'navy') === (axis === 'tpd') ? PUBLISHED[axis] : null;
  }

  benched(route, now) {
    const ends = this.number('bench', ...route);
    return ends !== null && now <= ends;
  }

  /** The smallest pressure over the keys that may serve the model. */
  fraction([platform, modelId], limits, now, slidingDay) {
    const keys = this.statement('keys').all(platform);
    if (keys.length === 0) return null;
    const pressures = keys.map(({ id }) => {
      const used = this.used([platform, modelId, id], now, slidingDay);
      return Math.max(...Object.entries(limits).map(([axis, limit]) => (limit === null ? 0 : used[axis] / limit)));
    });
    return Math.min(1, ...pressures);
  }
}

/** Just before midnight: what happens at midnight belongs to the new day. */
function midnight(now) {
  return Math.floor(now / DAY) * DAY - 1;
}

export function randomRoute(random) {
  return [random.pick(PLATFORMS), random.pick(MODELS), random.pick(KEYS)];
}

function randomLimits(random) {
  return { rpm: random.int(1, 5), rpd: random.int(1, 30), tpm: random.int(1, 900), tpd: random.int(1, 9000) };
}

/** Each: `({ core, sliding }, route, random, now)` → `[answer, oracle => expected]`. */
export const questions = {
  status({ core, sliding }, route, random, now) {
    const limits = randomLimits(random);
    const { rpm, rpd, tpm, tpd } = core.getRateLimitStatus(...route, limits);
    const answer = { rpm: rpm.used, rpd: rpd.used, tpm: tpm.used, tpd: tpd.used };
    return [answer, (oracle) => oracle.used(route, now, sliding)];
  },
  requests({ core, sliding }, route, random, now) {
    const limits = randomLimits(random);
    const answer = core.canMakeRequest(...route, limits);
    return [
      answer,
      (oracle) => {
        const { rpm, rpd } = oracle.used(route, now, sliding);
        return rpm < limits.rpm && rpd < limits.rpd;
      },
    ];
  },
  tokens({ core, sliding }, route, random, now) {
    const limits = randomLimits(random);
    const answer = core.canUseTokens(...route, 50, limits);
    return [
      answer,
      (oracle) => {
        const { tpm, tpd } = oracle.used(route, now, sliding);
        return tpm + 50 <= limits.tpm && tpd + 50 <= limits.tpd;
      },
    ];
  },
  account({ core }, route, _random, now) {
    const [platform, , keyId] = route;
    const answer = [core.providerMinuteRequestCount(platform, keyId), core.providerDailyRequestCount(platform, keyId)];
    return [
      answer,
      (oracle) => [oracle.accountRequests(route, now - MINUTE), oracle.accountRequests(route, midnight(now))],
    ];
  },
  accountGate({ core }, route, _random, now) {
    const [platform, , keyId] = route;
    const answer = core.canUseProvider(platform, keyId);
    return [
      answer,
      (oracle) => {
        const cap = oracle.cap('rpd', platform, keyId);
        return cap === null || oracle.accountRequests(route, midnight(now)) < cap;
      },
    ];
  },
  billed({ core }, route, _random, now) {
    const [platform, , keyId] = route;
    return [core.providerDailyTokenCount(platform, keyId), (oracle) => oracle.billed(route, now)];
  },
  caps({ core }, [platform, , keyId]) {
    const answer = [
      core.getProviderMinuteRequestCap(platform, keyId),
      core.getProviderDailyRequestCap(platform, keyId),
      core.getProviderDailyTokenCap(platform, keyId),
    ];
    return [answer, (oracle) => ['rpm', 'rpd', 'tpd'].map((axis) => oracle.cap(axis, platform, keyId))];
  },
  // The answer deletes a row that has ended, so that SQL has to be asked for what is left.
  cooldown({ core }, route, _random, now) {
    return [core.isOnCooldown(...route), (oracle) => oracle.benched(route, now)];
  },
  decision({ core, sliding }, route, random, now) {
    const limits = randomLimits(random);
    const { durationMs } = core.getCooldownDecisionForLimit(...route, limits);
    return [
      durationMs > 90_000,
      (oracle) => {
        const { rpd, tpd } = oracle.used(route, now, sliding);
        return rpd >= limits.rpd || tpd >= limits.tpd;
      },
    ];
  },
  fraction({ core, sliding }, route, random, now) {
    const [platform, modelId] = route;
    const limits = randomLimits(random);
    core.invalidateWindowUsage();
    const answer = core.modelWindowUsedFraction({ platform, modelId }, limits);
    return [answer, (oracle) => oracle.fraction(route, limits, now, sliding)];
  },
  explain({ core, sliding }, route, random, now) {
    const [platform, modelId, keyId] = route;
    const limits = randomLimits(random);
    const { admitted, gates } = core.explain({ platform, modelId, keyId, limits, estimatedTokens: 50 });
    const used = Object.fromEntries(gates.map((gate) => [gate.axis, gate.used]));
    return [{ admitted, used }, (oracle) => expectedGates(oracle, route, limits, now, sliding)];
  },
  admit({ core, sliding }, route, random, now) {
    const [platform, modelId, keyId] = route;
    const limits = randomLimits(random);
    const request = { platform, modelId, keyId, limits, estimatedTokens: 50 };
    const { admitted } = core.admit(request, { dryRun: true });
    return [admitted, (oracle) => expectedGates(oracle, route, limits, now, sliding).admitted];
  },
};

function expectedGates(oracle, route, limits, now, sliding) {
  const [platform, modelId, keyId] = route;
  const used = oracle.used(route, now, sliding);
  const benched = oracle.benched(route, now);
  const cost = Math.ceil(50 * (platform === 'navy' ? oracle.multiplier(platform, modelId) : 1));
  const gates = [
    ...Object.entries(used).map(([axis, amount]) => [axis, amount, limits[axis], axis.startsWith('t') ? 50 : 1]),
    ['account-rpm', oracle.accountRequests(route, now - MINUTE), oracle.cap('rpm', platform, keyId), 1],
    ['account-rpd', oracle.accountRequests(route, midnight(now)), oracle.cap('rpd', platform, keyId), 1],
    ['account-tpd', oracle.billed(route, now), oracle.cap('tpd', platform, keyId), cost],
  ].filter(([, , limit]) => limit !== null);
  return {
    admitted: !benched && gates.every(([, amount, limit, wanted]) => amount + wanted <= limit),
    used: Object.fromEntries([...(benched ? [['cooldown', 0]] : []), ...gates.map(([axis, amount]) => [axis, amount])]),
  };
}

export const QUESTION_WEIGHTS = {
  status: 20,
  requests: 30,
  tokens: 20,
  account: 10,
  accountGate: 10,
  billed: 6,
  caps: 6,
  cooldown: 20,
  decision: 1,
  fraction: 2,
  explain: 4,
  admit: 10,
};
