// Admission in one call, against the checks of a plain SQL router and against limiters that keep one counter in memory.
//
// The limiters answer a smaller question (one limit, no file, no daily or token limit, no account), so that their figures
// are a floor, not an equal.

import { RateLimiter } from 'limiter';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { LIMITS, NOW, openHostFiles, ROUTE } from '../host-file.mjs';
import { PlainSql } from '../plain-sql.mjs';

export const name = 'admission';
export const sizes = [0, 1000, 10_000, 100_000, 1_000_000];
export const title = (rows) => `Admission on a WAL file, ${rows} served requests a day on the route`;

const ACCOUNT_CAP = 1e8;
const REQUEST = { ...ROUTE, limits: LIMITS, estimatedTokens: 800, account: true };
// A router's list: 49 routes whose minute is over, then one that has room.
const CANDIDATES = Array.from({ length: 50 }, (_, index) => ({
  ...REQUEST,
  modelId: index === 49 ? ROUTE.modelId : `full-${index}`,
  limits: index === 49 ? LIMITS : { ...LIMITS, rpm: 0 },
}));
const PLENTY = 1e9;
const { platform, modelId, keyId } = ROUTE;

export function setup(rows) {
  const stage = openHostFiles(rows, { env: { PROVIDER_DAILY_REQUEST_CAP_GROQ: String(ACCOUNT_CAP) } });
  return {
    ...stage,
    sql: new PlainSql(stage.plain),
    flexible: new RateLimiterMemory({ points: PLENTY, duration: 60 }),
    bucket: new RateLimiter({ tokensPerInterval: PLENTY, interval: 'minute' }),
  };
}

const sqlAdmits = (sql, route, limits) =>
  !sql.isOnCooldown(route, NOW) &&
  sql.canMakeRequest(route, limits, NOW) &&
  sql.canUseTokens(route, 800, limits, NOW) &&
  sql.canUseProvider(route, ACCOUNT_CAP, NOW);

export const cases = [
  {
    name: 'admit, dry',
    contenders: ({ core, sql }) => ({
      ours: () => core.admit(REQUEST, { dryRun: true }),
      'plain SQL': () => sqlAdmits(sql, ROUTE, LIMITS),
    }),
  },
  {
    name: 'admit, then cancel',
    contenders: ({ core, sql, flexible, bucket }) => ({
      ours: () => core.cancel(core.admit(REQUEST).leaseId),
      'plain SQL': () => sqlAdmits(sql, ROUTE, LIMITS) && sql.releaseLease(sql.acquireLease(ROUTE, 800, NOW)),
      'rate-limiter-flexible': () => flexible.consume('groq/llama-70b/1'),
      limiter: () => bucket.tryRemoveTokens(1),
    }),
  },
  {
    name: 'admit of 50 candidates, dry',
    contenders: ({ core, sql }) => ({
      ours: () => core.admit(CANDIDATES, { dryRun: true }),
      'plain SQL': () => CANDIDATES.findIndex((candidate) => sqlAdmits(sql, candidate, candidate.limits)),
    }),
  },
  {
    name: 'admit, then settle',
    contenders: ({ core, sql }) => ({
      ours: () => core.settle(core.admit(REQUEST).leaseId, { tokens: 700 }),
      'plain SQL': () => {
        if (!sqlAdmits(sql, ROUTE, LIMITS)) return;
        const lease = sql.acquireLease(ROUTE, 800, NOW);
        sql.recordRequest(ROUTE, NOW);
        sql.recordTokens(ROUTE, 700, NOW);
        sql.releaseLease(lease);
      },
    }),
  },
  {
    name: 'settle / two inserts',
    contenders: ({ core, sql }) => ({
      // Taking the lease is a small part of it; a settle needs one.
      ours: () => core.settle(core.acquireLease(platform, modelId, keyId, 800), { tokens: 700 }),
      'plain SQL': () => {
        sql.recordRequest(ROUTE, NOW);
        sql.recordTokens(ROUTE, 700, NOW);
      },
      // What the file itself costs: no check, no lease, nothing prepared anew.
      'one prepared commit': () => sql.recordInOneCommit(ROUTE, 700, NOW),
    }),
  },
];
