// One process of the benchmark of shared admission: keeps requests in flight for a while, then says how many were done and
// how long each took. `node shared-worker.mjs <contender> <url> <milliseconds> <in flight>`; starts at a line on stdin.
import { once } from 'node:events';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const [, , contender, url, duration, inFlight] = process.argv;
const KEYS = 1;
const MODELS = 1;
const MANY = 1e9;

/** @param {boolean} settled whether each lease is settled too, while the next request is admitted */
function ours(settled) {
  const { createQuotaCore } = require('../index.js');
  const names = [
    'MAX_CONCURRENT_REQUESTS_PER_KEY',
    'PROVIDER_DAILY_REQUEST_CAP_GROQ',
    'PROVIDER_MINUTE_REQUEST_CAP_GROQ',
  ];
  const env = Object.fromEntries(names.map((name) => [name, String(MANY)]));
  const core = createQuotaCore({ redis: { url, timeoutMs: 5000 }, env });
  const limits = { rpm: MANY, rpd: MANY, tpm: MANY, tpd: MANY };
  return async (key, model) => {
    const request = { platform: 'groq', modelId: `model-${model}`, keyId: key, limits, estimatedTokens: 500 };
    const { leaseId } = await core.admitShared(request);
    if (settled) core.settleShared(leaseId, { tokens: 400 });
  };
}

/** All decide about the same routes; ours checks every axis and takes a lease, theirs counts one limit. */
const contenders = {
  ours: () => ours(false),
  'ours, settled too': () => ours(true),
  async 'rate-limiter-flexible'() {
    const { Redis } = require('ioredis');
    const { RateLimiterRedis } = require('rate-limiter-flexible');
    const storeClient = new Redis(url, { enableAutoPipelining: true });
    await once(storeClient, 'ready');
    const limiter = new RateLimiterRedis({ storeClient, points: MANY, duration: 60 });
    return async (key, model) => {
      await limiter.consume(`groq:model-${model}:${key}`, 1);
    };
  },
};

const admit = await contenders[contender]();
const latencies = [];
let counting = false;
let running = true;

async function work(number) {
  for (let turn = number; running; turn += 1) {
    const started = performance.now();
    await admit(turn % KEYS, turn % MODELS);
    if (counting) latencies.push(performance.now() - started);
  }
}

await admit(0, 0);
console.log('ready');
await once(process.stdin, 'data');
const workers = Array.from({ length: Number(inFlight) }, (_, number) => work(number));
await new Promise((resolve) => setTimeout(resolve, 500));
counting = true;
const from = performance.now();
await new Promise((resolve) => setTimeout(resolve, Number(duration)));
const took = performance.now() - from;
counting = false;
running = false;
await Promise.all(workers);
const sorted = Float64Array.from(latencies).sort();
const quantile = (part) => sorted[Math.floor((sorted.length - 1) * part)];
console.log(JSON.stringify({ perSecond: (latencies.length / took) * 1000, p50: quantile(0.5), p99: quantile(0.99) }));
process.exit();
