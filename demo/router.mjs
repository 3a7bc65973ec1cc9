// Two virtual hours of a router with 200 clients, once asking the engine before each dispatch, once not asking at all.
// Ends with 1 when a provider had to refuse a request for a limit that the engine knew.

import { createRequire } from 'node:module';
import { openHost } from './host.mjs';
import { ACCOUNTS, ENV, MODELS, Providers } from './providers.mjs';
import { clockTime, exponential, HOUR, MINUTE, randomFrom, SECOND, table, World } from './world.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('..');

const CLIENTS = 200;
const THINK_MS = 90 * SECOND;
const START = Date.UTC(2027, 2, 1, 23);
const END = START + 2 * HOUR;
// A request is dispatched at most this often; after that its client is told to come back, a few times.
const MAX_ATTEMPTS = 3;
const MAX_TRIES = 4;

// How full the favourite's window was when a request came: each band begins here.
const BANDS = [0, 0.5, 0.8, 0.85, 0.9, 0.95];

const GATES = ['benched', 'requests', 'tokens', 'acct min', 'acct day', 'in flight'];

const routeName = (model, keyId) => `${model.platform}/${model.modelId} #${keyId}`;

const newStat = () => ({
  asked: 0,
  dispatched: 0,
  refused: Object.fromEntries(GATES.map((gate) => [gate, 0])),
  served: 0,
  told429: 0,
  other: 0,
});

/** The gates in the order of a router's loop: the first that refuses, or null. */
function refusedBy(core, { platform, modelId }, keyId, estimate, limits) {
  if (core.isOnCooldown(platform, modelId, keyId)) return 'benched';
  if (!core.canMakeRequest(platform, modelId, keyId, limits)) return 'requests';
  if (!core.canUseTokens(platform, modelId, keyId, estimate, limits)) return 'tokens';
  if (!core.canUseProviderMinute(platform, keyId)) return 'acct min';
  if (!core.canUseProvider(platform, keyId)) return 'acct day';
  if (!core.canUseKeyConcurrency(platform, keyId)) return 'in flight';
  return null;
}

class Simulation {
  constructor(gated, seed) {
    this.gated = gated;
    this.random = randomFrom(seed);
    this.world = new World(START);
    this.providers = new Providers(START);
    this.host = openHost();
    this.catalog = this.host.limits();
    this.stats = new Map(MODELS.flatMap((model) => model.keys.map((keyId) => [routeName(model, keyId), newStat()])));
    this.totals = { requests: 0, served: 0, late: 0, lost: 0 };
    this.benches = new Map();
    this.learned = [];
    this.recovered = [];
    this.steering = BANDS.map(() => ({ choices: 0, first: 0 }));
    this.broken = [];
    this.benchedAt = new Map();
    this.core = createQuotaCore({
      database: () => this.host.db,
      clock: () => this.world.now,
      env: ENV,
      random: this.random,
    });
  }

  stat(model, keyId) {
    return this.stats.get(routeName(model, keyId));
  }

  limitsOf(model) {
    return this.catalog.get(`${model.platform}/${model.modelId}`);
  }

  /** Models from best to worst: quality, less the more of its window a model has used. */
  ranked() {
    const scored = MODELS.map((model) => {
      if (!this.gated) return { model, score: model.quality, used: null };
      const used = this.core.modelWindowUsedFraction(
        { platform: model.platform, modelId: model.modelId },
        this.limitsOf(model).limits,
      );
      return { model, score: model.quality * this.core.rateWindowHeadroomFactor(used), used };
    });
    const best = scored.reduce((a, b) => (b.score > a.score ? b : a));
    const favourite = scored[0];
    if (favourite.used !== null) {
      const band = this.steering[BANDS.findLastIndex((from) => favourite.used >= from)];
      band.choices++;
      if (best === favourite) band.first++;
    }
    return scored.sort((a, b) => b.score - a.score).map(({ model }) => model);
  }

  keysOf(model) {
    if (model.keys.length === 1 || !this.gated) return model.keys;
    return this.core.orderKeysByRemainingQuota(model.platform, model.modelId, model.keys);
  }

  /** One request of a client: tries routes until one takes it; returns how long that took, or null. */
  dispatch(request) {
    let attempts = 0;
    for (const model of this.ranked()) {
      for (const keyId of this.keysOf(model)) {
        const stat = this.stat(model, keyId);
        stat.asked++;
        if (this.gated) {
          const gate = refusedBy(this.core, model, keyId, request.estimate, this.limitsOf(model).limits);
          if (gate) {
            stat.refused[gate]++;
            continue;
          }
        }
        if (this.gated && attempts === MAX_ATTEMPTS) return null;
        attempts++;
        stat.dispatched++;
        const latency = this.send(model, keyId, request, stat);
        if (latency !== null) return latency;
      }
    }
    return null;
  }

  send(model, keyId, request, stat) {
    const { core, world } = this;
    const { platform, modelId } = model;
    const lease = this.gated ? core.acquireLease(platform, modelId, keyId, request.estimate) : null;
    const answer = this.providers.ask(model, keyId, request.tokens, world.now);
    if (answer.status !== 200) {
      if (answer.status === 429) stat.told429++;
      else stat.other++;
      if (this.gated) {
        core.releaseLease(lease);
        this.onRefusal(model, keyId, answer);
      }
      return null;
    }
    stat.served++;
    const latency = model.latency * (0.5 + this.random());
    world.after(latency, () => {
      answer.done();
      if (!this.gated) return;
      core.recordRequest(platform, modelId, keyId);
      core.recordTokens(platform, modelId, keyId, request.tokens);
      core.releaseLease(lease);
      if (answer.headers) core.recordQuotaObservationsFromResponse(answer, { platform, modelId, keyId });
    });
    return latency;
  }

  /** A router's error path: was this limit known? Then learn what the text says and bench the route. */
  onRefusal(model, keyId, answer) {
    const { core, world } = this;
    const { platform, modelId } = model;
    const { modelDbId, limits } = this.limitsOf(model);
    if (answer.axis && this.isKnown(model, limits, answer)) {
      this.broken.push(`${clockTime(world.now)}  ${routeName(model, keyId)} broke ${answer.axis} ${answer.limit}`);
    }
    const lesson = core.learnLimitFromError(modelDbId, { message: answer.message });
    if (lesson) {
      this.learned.push(
        `${clockTime(world.now)}  ${platform}/${modelId}: ${lesson.kind} ${lesson.limit}, from "${answer.message}"`,
      );
      this.catalog = this.host.limits();
    }
    const route = { platform, modelId, keyId, rpdLimit: limits.rpd, tpdLimit: limits.tpd };
    const { durationMs, source } = core.cooldownDecisionForError(route, answer);
    core.setCooldown(platform, modelId, keyId, durationMs, source);
    this.benchedAt.set(keyId, { at: world.now, until: world.now + durationMs });
    const kind = `${source}, ${durationMs >= HOUR ? `${durationMs / HOUR} h` : `${durationMs / SECOND} s`}`;
    const entry = this.benches.get(kind) ?? { count: 0, routes: new Set() };
    entry.count++;
    entry.routes.add(routeName(model, keyId));
    this.benches.set(kind, entry);
  }

  isKnown(model, limits, { axis }) {
    if (axis in limits) return limits[axis] !== null;
    return axis === 'in flight' || model.platform in ACCOUNTS;
  }

  client() {
    const { world, random } = this;
    // Estimates are upper bounds, as a router's are: the prompt plus the most that the client lets the model write.
    const estimate = 200 + Math.floor(random() * 1400);
    const request = { estimate, tokens: Math.ceil(estimate * (0.5 + random() / 2)), tries: 0 };
    this.totals.requests++;
    const attempt = () => {
      const latency = this.dispatch(request);
      if (latency !== null) {
        this.totals.served++;
        if (request.tries > 0) this.totals.late++;
        world.after(latency + exponential(random, THINK_MS), () => this.client());
      } else if (++request.tries < MAX_TRIES) {
        world.after((5 + 10 * random()) * SECOND, attempt);
      } else {
        this.totals.lost++;
        world.after(exponential(random, THINK_MS), () => this.client());
      }
    };
    attempt();
  }

  async probePass() {
    const { core, world } = this;
    const probed = await core.runCooldownProbePass({
      probe: async (keyId) => this.providers.validate(keyId, world.now),
      jitter: this.random,
    });
    for (const keyId of probed.clearedCooldowns > 0 ? probed.probedKeyIds : []) {
      if (core.getActiveCooldownsForKeys([keyId]).size > 0) continue;
      const bench = this.benchedAt.get(keyId);
      const early = Math.round((bench.until - world.now) / SECOND);
      this.recovered.push(
        `${clockTime(world.now)}  key #${keyId} back ${early} s before its bench (since ${clockTime(bench.at)}) would have ended`,
      );
    }
    world.after(MINUTE, () => this.probePass());
  }

  async run() {
    for (let index = 0; index < CLIENTS; index++) {
      this.world.after(this.random() * THINK_MS, () => this.client());
    }
    if (this.gated) this.world.after(MINUTE, () => this.probePass());
    const started = performance.now();
    await this.world.runUntil(END);
    this.seconds = (performance.now() - started) / 1000;
    this.core.close();
    this.host.remove();
    return this;
  }
}

const sum = (stats, field) => [...stats.values()].reduce((total, stat) => total + stat[field], 0);

function routeTable(simulation) {
  const names = MODELS.flatMap((model) => model.keys.map((keyId) => routeName(model, keyId)));
  const rows = names.map((name) => {
    const stat = simulation.stats.get(name);
    const refused = simulation.gated ? GATES.map((gate) => stat.refused[gate]) : [];
    return [name, stat.asked, ...refused, stat.dispatched, stat.served, stat.told429, stat.other];
  });
  const gates = simulation.gated ? GATES : [];
  return table(['route', 'asked', ...gates, 'dispatched', 'served', '429', '402/3'], rows);
}

function summary({ totals, stats, seconds }) {
  return (
    `  ${totals.requests} requests of ${CLIENTS} clients: ${totals.served} served (${totals.late} after a wait), ` +
    `${totals.lost} given up; ${sum(stats, 'told429')} times a provider had to say 429; ${seconds.toFixed(1)} s of real time`
  );
}

function firstAndRest(lines, most = 8) {
  if (lines.length === 0) return '  none';
  const rest = lines.length > most ? [`… and ${lines.length - most} more`] : [];
  return [...lines.slice(0, most), ...rest].map((line) => `  ${line}`).join('\n');
}

export async function main(args) {
  const seed = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 1);
  console.log(`A router, ${CLIENTS} clients, two virtual hours from 23:00 UTC across midnight (seed ${seed}).\n`);

  const on = await new Simulation(true, seed).run();
  console.log('Asking the engine first. Columns between "asked" and "dispatched": what the gates refused.\n');
  console.log(routeTable(on));
  console.log(`\n${summary(on)}\n`);

  console.log('Cooldowns by source and length:\n');
  const benches = [...on.benches].sort(([a], [b]) => (a < b ? -1 : 1));
  console.log(
    table(
      ['source', 'set', 'routes'],
      benches.map(([kind, { count, routes }]) => [kind, count, [...routes].join(', ')]),
    ),
  );
  console.log(`\nLimits learned from error texts:\n\n${firstAndRest(on.learned)}`);
  console.log(`\nKeys that a probe brought back early:\n\n${firstAndRest(on.recovered)}`);
  const [favourite] = MODELS;
  console.log(
    `\nSteering: how often ${favourite.platform}/${favourite.modelId} was the first choice, by how full its window was:\n`,
  );
  console.log(
    table(
      ['window used', 'choices', 'first choice'],
      on.steering.map(({ choices, first }, i) => [
        `${BANDS[i] * 100}–${(BANDS[i + 1] ?? 1) * 100} %`,
        choices,
        choices === 0 ? '' : `${Math.round((100 * first) / choices)} %`,
      ]),
    ),
  );

  const off = await new Simulation(false, seed).run();
  console.log('\nThe same clients with the gates off: routes in order of quality until one takes the request.\n');
  console.log(routeTable(off));
  console.log(`\n${summary(off)}`);

  if (on.broken.length > 0) {
    console.error(
      `\nFAILED: ${on.broken.length} dispatches broke a limit that the engine knew:\n${firstAndRest(on.broken)}`,
    );
    return 1;
  }
  console.log('\nNo dispatch broke a limit that the engine knew.');
  return 0;
}
