// Fake providers that keep their own books and enforce their own limits, whatever the router believes.
//
// Each counts what it accepted: the last 60 s for minute limits, since midnight UTC for daily ones. What it tells the
// router differs: some publish their limits, one states it in the error text, one says nothing at all.

import { HOUR, MINUTE } from './world.mjs';

const DAY = 24 * HOUR;

/** Events with a weight, and their sum over the last minute and since midnight UTC. */
class Book {
  #recent = [];
  #first = 0;
  #minute = 0;
  #day = 0;
  #dayStart = Number.NEGATIVE_INFINITY;

  #advance(now) {
    while (this.#first < this.#recent.length && this.#recent[this.#first].at <= now - MINUTE) {
      this.#minute -= this.#recent[this.#first++].weight;
    }
    if (this.#first > 1000) {
      this.#recent.splice(0, this.#first);
      this.#first = 0;
    }
    const dayStart = Math.floor(now / DAY) * DAY;
    if (dayStart !== this.#dayStart) {
      this.#dayStart = dayStart;
      this.#day = 0;
    }
  }

  add(now, weight) {
    this.#advance(now);
    this.#recent.push({ at: now, weight });
    this.#minute += weight;
    this.#day += weight;
  }

  minute(now) {
    this.#advance(now);
    return this.#minute;
  }

  day(now) {
    this.#advance(now);
    return this.#day;
  }
}

// What the demo's catalog says of each model. `real` is what the provider enforces; `published` what the router's
// table of models says at the start (null: no limit is known there).
export const MODELS = [
  {
    platform: 'groq',
    modelId: 'llama-70b',
    keys: [1, 2],
    quality: 1,
    latency: 1500,
    real: { rpm: 30, rpd: 1000, tpm: 24000 },
  },
  { platform: 'github', modelId: 'gpt-large', keys: [10], quality: 0.98, latency: 2000, real: {}, forbidden: true },
  { platform: 'cerebras', modelId: 'gpt-oss', keys: [3], quality: 0.95, latency: 900, real: { rpm: 60, tpd: 900_000 } },
  { platform: 'nvidia', modelId: 'nemotron', keys: [4], quality: 0.9, latency: 2500, real: { rpm: 30 } },
  { platform: 'nvidia', modelId: 'deepseek', keys: [4], quality: 0.85, latency: 3500, real: {} },
  { platform: 'openrouter', modelId: 'qwen:free', keys: [5], quality: 0.8, latency: 3000, real: { rpm: 20 } },
  { platform: 'mistral', modelId: 'small', keys: [6], quality: 0.7, latency: 2000, real: { rpm: 15 }, states: true },
  { platform: 'llm7', modelId: 'mini', keys: [7], quality: 0.6, latency: 6000, real: {} },
  { platform: 'kilo', modelId: 'auto', keys: [8], quality: 0.5, latency: 4000, real: { rpm: 12 }, silent: true },
  { platform: 'zhipu', modelId: 'glm-flash', keys: [9], quality: 0.4, latency: 2500, real: { rpm: 60 }, credit: 400 },
].map((model) => ({ ...model, published: model.states || model.silent ? {} : model.real }));

// Limits of a whole account, over all its models. The engine knows the first from its own table of providers, the
// others from the environment.
export const ACCOUNTS = {
  nvidia: { rpm: 40 },
  openrouter: { rpd: 700 },
  llm7: { concurrency: 2 },
};

export const ENV = { MAX_CONCURRENT_REQUESTS_PER_KEY_LLM7: '2', PROVIDER_DAILY_REQUEST_CAP_OPENROUTER: '700' };

/** Short outages that have nothing to do with limits. */
const OUTAGES = [
  { platform: 'kilo', fromMinute: 40, toMinute: 48 },
  { platform: 'nvidia', fromMinute: 25, toMinute: 29, retryAfter: 180 },
  { platform: 'groq', keyId: 2, fromMinute: 34, toMinute: 36 },
];

const PHRASE = {
  rpm: 'requests per minute (RPM)',
  rpd: 'requests per day (RPD)',
  tpm: 'tokens per minute (TPM)',
  tpd: 'tokens per day (TPD)',
};

export class Providers {
  #books = new Map();
  #inFlight = new Map();
  #spent = new Map();

  constructor(start) {
    this.start = start;
  }

  #book(name) {
    let book = this.#books.get(name);
    if (!book) {
      book = new Book();
      this.#books.set(name, book);
    }
    return book;
  }

  #outage(platform, keyId, now) {
    const minute = (now - this.start) / MINUTE;
    return OUTAGES.find(
      (o) => o.platform === platform && (o.keyId ?? keyId) === keyId && minute >= o.fromMinute && minute < o.toMinute,
    );
  }

  /** Which limit a request would break now, or null. */
  #broken(model, keyId, tokens, now) {
    const { platform, modelId, real } = model;
    const requests = this.#book(`${platform}/${modelId}/${keyId}/requests`);
    const used = this.#book(`${platform}/${modelId}/${keyId}/tokens`);
    if (real.rpm && requests.minute(now) + 1 > real.rpm) return { axis: 'rpm', limit: real.rpm };
    if (real.rpd && requests.day(now) + 1 > real.rpd) return { axis: 'rpd', limit: real.rpd };
    if (real.tpm && used.minute(now) + tokens > real.tpm) return { axis: 'tpm', limit: real.tpm };
    if (real.tpd && used.day(now) + tokens > real.tpd) return { axis: 'tpd', limit: real.tpd };
    const account = ACCOUNTS[platform] ?? {};
    const all = this.#book(`${platform}/${keyId}/requests`);
    if (account.rpm && all.minute(now) + 1 > account.rpm) return { axis: 'account rpm', limit: account.rpm };
    if (account.rpd && all.day(now) + 1 > account.rpd) return { axis: 'account rpd', limit: account.rpd };
    const flying = this.#inFlight.get(`${platform}/${keyId}`) ?? 0;
    if (account.concurrency && flying + 1 > account.concurrency) {
      return { axis: 'in flight', limit: account.concurrency };
    }
    return null;
  }

  /**
   * A request arrives. Accepted: the tokens it will use are on the books from here on; `done()` ends it.
   * Refused: `axis` is the limit it broke (absent when no limit is the reason).
   */
  ask(model, keyId, tokens, now) {
    const { platform, modelId } = model;
    const outage = this.#outage(platform, keyId, now);
    if (outage) {
      return {
        status: 429,
        message: 'Too many requests: the service is overloaded',
        retryAfterMs: outage.retryAfter && outage.retryAfter * 1000,
      };
    }
    if (model.forbidden) return { status: 403, message: 'Forbidden: not part of this plan' };
    const spent = this.#spent.get(modelId) ?? 0;
    if (model.credit && spent >= model.credit) return { status: 402, message: 'Insufficient balance' };
    const broken = this.#broken(model, keyId, tokens, now);
    if (broken) {
      const message = model.states
        ? `Rate limit reached. Limit: ${broken.limit} ${PHRASE[broken.axis] ?? broken.axis}. Try again later.`
        : 'Too many requests';
      return { status: 429, message, ...broken };
    }
    this.#spent.set(modelId, spent + 1);
    this.#book(`${platform}/${modelId}/${keyId}/requests`).add(now, 1);
    this.#book(`${platform}/${modelId}/${keyId}/tokens`).add(now, tokens);
    this.#book(`${platform}/${keyId}/requests`).add(now, 1);
    const flight = `${platform}/${keyId}`;
    this.#inFlight.set(flight, (this.#inFlight.get(flight) ?? 0) + 1);
    return {
      status: 200,
      done: () => this.#inFlight.set(flight, this.#inFlight.get(flight) - 1),
      headers: this.#headers(model, keyId, now),
    };
  }

  /** The response headers of a provider that reports what is left. */
  #headers(model, keyId, now) {
    if (model.platform !== 'groq') return null;
    const left = model.real.rpd - this.#book(`groq/${model.modelId}/${keyId}/requests`).day(now);
    const reset = Math.ceil((DAY - (now % DAY)) / 1000);
    return new Headers({
      'x-ratelimit-limit-requests': String(model.real.rpd),
      'x-ratelimit-remaining-requests': String(left),
      'x-ratelimit-reset-requests': `${reset}s`,
    });
  }

  /** The key validation of a router: a call that costs nothing and fails while the provider turns the key away. */
  validate(keyId, now) {
    const models = MODELS.filter((model) => model.keys.includes(keyId));
    const refused = models.some(
      (model) => this.#outage(model.platform, keyId, now) || this.#broken(model, keyId, 0, now)?.axis === 'rpm',
    );
    return refused ? 'error' : 'valid';
  }
}
