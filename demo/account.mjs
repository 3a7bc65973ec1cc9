// One provider account shared by five keys, in virtual time. Counts what each key used with its own arithmetic, and says of
// every decision of the engine whether the rules of quota sharing allow it.

import { createRequire } from 'node:module';
import { exponential, HOUR, randomFrom, SECOND, World } from './world.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('..');

export const WINDOW = 5 * HOUR;
export const DAY = 24 * HOUR;
export const LIMIT = 1_000_000;
export const THRESHOLD = 0.5;
const START = Date.UTC(2027, 2, 1);
const CONNECTION = 'account';
const PROVIDER = 'demo';

export const KEYS = [
  { id: 'research', weight: 40, policy: 'hard' },
  { id: 'product', weight: 30, policy: 'soft' },
  { id: 'support', weight: 15, policy: 'hard' },
  { id: 'batch', weight: 10, policy: 'burst' },
  { id: 'intern', weight: 5, policy: 'hard' },
];

/** A sliding count over two buckets of a window, as the provider and the engine both keep it. */
class Sliding {
  #bucket = 0;
  #current = 0;
  #previous = 0;

  #turn(now) {
    const bucket = Math.floor(now / WINDOW);
    if (bucket === this.#bucket) return;
    this.#previous = bucket === this.#bucket + 1 ? this.#current : 0;
    this.#current = 0;
    this.#bucket = bucket;
  }

  add(amount, now) {
    this.#turn(now);
    this.#current += amount;
  }

  at(now) {
    this.#turn(now);
    return this.#previous * (1 - (now % WINDOW) / WINDOW) + this.#current;
  }
}

/** What the rules say of a request, given what was used before it: whether it goes, and whether it ranks behind. */
function verdict({ weight, policy }, mine, total, saturation) {
  if (total >= LIMIT) return { goes: false, behind: false };
  const share = (weight / 100) * LIMIT;
  const strict = saturation >= THRESHOLD;
  if (policy === 'hard') return { goes: strict ? mine < share : mine < LIMIT, behind: false };
  return { goes: true, behind: policy === 'soft' && mine >= share };
}

export class SharedAccount {
  /** @param {{ seed: number, reports?: boolean }} options `reports`: whether the provider says how used up the account is */
  constructor({ seed, reports = true }) {
    this.random = randomFrom(seed);
    this.world = new World(START);
    this.reports = reports;
    this.total = new Sliding();
    this.broken = [];
    this.highest = 0;
    this.core = createQuotaCore({
      database: ':memory:',
      clock: () => this.world.now,
      env: { QUOTA_SATURATION_THRESHOLD: String(THRESHOLD) },
      saturation: () => this.saturation(),
    });
    this.core.ensureQuotaSchema();
    this.core.upsertPlan(CONNECTION, PROVIDER, [{ unit: 'tokens', window: '5h', limit: LIMIT }], 'manual');
    this.core.createPool({
      connectionId: CONNECTION,
      name: 'shared',
      allocations: KEYS.map(({ id, weight, policy }) => ({ apiKeyId: id, weight, policy })),
    });
    this.keys = KEYS.map((key) => ({
      ...key,
      used: new Sliding(),
      asked: 0,
      served: 0,
      tokens: 0,
      behind: 0,
      highest: 0,
      waitingSince: null,
      longestWait: 0,
    }));
  }

  saturation() {
    return this.reports ? Math.min(1, this.total.at(this.world.now) / LIMIT) : 0;
  }

  /** One request of a key: asks the engine, compares with the rules, spends. */
  async ask(key, tokens) {
    const { now } = this.world;
    const [mine, total, saturation] = [key.used.at(now), this.total.at(now), this.saturation()];
    const request = { apiKeyId: key.id, connectionId: CONNECTION, provider: PROVIDER };
    const decision = await this.core.enforceQuotaShare(request);
    const expected = verdict(key, mine, total, saturation);
    const goes = decision.kind === 'allow';
    if (goes !== expected.goes || (goes && Boolean(decision.deprioritize) !== expected.behind)) {
      this.broken.push(`${key.id}: ${JSON.stringify(decision)} at ${mine} of ${total}`);
    }
    key.asked += 1;
    if (!goes) {
      key.waitingSince ??= now;
      return;
    }
    if (key.waitingSince !== null) key.longestWait = Math.max(key.longestWait, now - key.waitingSince);
    key.waitingSince = null;
    key.served += 1;
    key.tokens += tokens;
    if (decision.deprioritize) key.behind += 1;
    await this.core.recordConsumption({ ...request, cost: { tokens } });
    key.used.add(tokens, now);
    this.total.add(tokens, now);
    key.highest = Math.max(key.highest, key.used.at(now));
    this.highest = Math.max(this.highest, this.total.at(now));
  }

  /** Keys ask again and again; with `idle`, in bursts with pauses of that mean between them. */
  start(keys, { think, burst = Number.POSITIVE_INFINITY, idle = 0 }) {
    const { random, world } = this;
    for (const key of keys) {
      const turn = (until) => async () => {
        await this.ask(key, 500 + Math.floor(random() * 4000));
        const pause = world.now < until ? 0 : exponential(random, idle);
        const next = pause === 0 ? until : world.now + pause + exponential(random, burst);
        world.after(pause + exponential(random, think), turn(next));
        // Whoever pauses waits for nothing.
        if (pause > 0) key.waitingSince = null;
      };
      world.after(exponential(random, 10 * SECOND), turn(world.now + exponential(random, burst)));
    }
  }

  run(duration) {
    return this.world.runUntil(START + duration);
  }

  close() {
    this.core.close();
  }
}

/** The part of the whole limit that a key reaches while the others do nothing, for a day. */
export async function alone(id, { seed, reports }) {
  const account = new SharedAccount({ seed, reports });
  account.start(
    account.keys.filter((key) => key.id === id),
    { think: 20 * SECOND },
  );
  await account.run(DAY);
  account.close();
  return { reached: account.highest / LIMIT, broken: account.broken };
}

/** Everyone wants more than there is, all the time. */
export async function crowded({ seed, days }) {
  const account = new SharedAccount({ seed });
  account.start(account.keys, { think: 90 * SECOND });
  await account.run(days * DAY);
  account.close();
  return account;
}

/** Everyone comes and goes. */
export async function bursts({ seed, days }) {
  const account = new SharedAccount({ seed });
  account.start(account.keys, { think: 60 * SECOND, burst: 3 * HOUR, idle: 5 * HOUR });
  await account.run(days * DAY);
  account.close();
  return account;
}

/** Picks of a deficit round robin by the keys' weights, with requests released at once, later in any order, or never. */
export function picks(release, { seed, turns }) {
  const random = randomFrom(seed);
  let now = START;
  const core = createQuotaCore({ clock: () => now });
  const targets = KEYS.map(({ id, weight }) => ({ executionKey: id, connectionId: id, weight }));
  const counts = new Map(KEYS.map(({ id }) => [id, 0]));
  const running = [];
  for (let turn = 0; turn < turns; turn++) {
    now += Math.ceil(exponential(random, 200));
    const { target, decrementInflight } = core.selectQuotaShareTarget(targets, 'shared', `${PROVIDER}/model`);
    counts.set(target.executionKey, counts.get(target.executionKey) + 1);
    if (release === 'at once') decrementInflight();
    if (release === 'late') running.push(decrementInflight);
    if (running.length > 40) running.splice(Math.floor(random() * running.length), 1)[0]();
  }
  core.close();
  return KEYS.map(({ id, weight }) => ({ id, weight, part: (100 * counts.get(id)) / turns }));
}
