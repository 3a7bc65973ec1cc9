// The gates, leases, records and cooldowns of one route, by how many requests a day the route serves.

import { LIMITS, NOW, openHostFiles, ROUTE } from '../host-file.mjs';
import { PlainSql } from '../plain-sql.mjs';

export const name = 'rate-limits';
export const sizes = [0, 100, 1000, 10_000, 100_000];
export const title = (rows) => `Rate limits on a WAL file, ${rows} served requests a day on the route`;

const ACCOUNT_CAP = 1e8;

export function setup(rows) {
  // The account cap is high: the gate has to count, and never refuses.
  const stage = openHostFiles(rows, { env: { PROVIDER_DAILY_REQUEST_CAP_GROQ: String(ACCOUNT_CAP) } });
  return { ...stage, sql: new PlainSql(stage.plain) };
}

const { platform, modelId, keyId } = ROUTE;

const oursAllGates = (core) =>
  !core.isOnCooldown(platform, modelId, keyId) &&
  core.canMakeRequest(platform, modelId, keyId, LIMITS) &&
  core.canUseTokens(platform, modelId, keyId, 800, LIMITS) &&
  core.canUseProvider(platform, keyId);

const sqlAllGates = (sql) =>
  !sql.isOnCooldown(ROUTE, NOW) &&
  sql.canMakeRequest(ROUTE, LIMITS, NOW) &&
  sql.canUseTokens(ROUTE, 800, LIMITS, NOW) &&
  sql.canUseProvider(ROUTE, ACCOUNT_CAP, NOW);

export const cases = [
  {
    name: 'canMakeRequest',
    contenders: ({ core, sql }) => ({
      ours: () => core.canMakeRequest(platform, modelId, keyId, LIMITS),
      'plain SQL': () => sql.canMakeRequest(ROUTE, LIMITS, NOW),
    }),
  },
  {
    name: 'canUseTokens',
    contenders: ({ core, sql }) => ({
      ours: () => core.canUseTokens(platform, modelId, keyId, 800, LIMITS),
      'plain SQL': () => sql.canUseTokens(ROUTE, 800, LIMITS, NOW),
    }),
  },
  {
    name: 'canUseProvider (account)',
    contenders: ({ core, sql }) => ({
      ours: () => core.canUseProvider(platform, keyId),
      'plain SQL': () => sql.canUseProvider(ROUTE, ACCOUNT_CAP, NOW),
    }),
  },
  {
    name: 'isOnCooldown (no)',
    contenders: ({ core, sql }) => ({
      ours: () => core.isOnCooldown(platform, modelId, keyId),
      'plain SQL': () => sql.isOnCooldown(ROUTE, NOW),
    }),
  },
  {
    name: 'all gates of a route',
    contenders: ({ core, sql }) => ({ ours: () => oursAllGates(core), 'plain SQL': () => sqlAllGates(sql) }),
  },
  {
    name: 'lease + record + release',
    contenders: ({ core, sql }) => ({
      ours: () => {
        const lease = core.acquireLease(platform, modelId, keyId, 800);
        core.recordRequest(platform, modelId, keyId);
        core.recordTokens(platform, modelId, keyId, 800);
        core.releaseLease(lease);
      },
      'plain SQL': () => {
        const lease = sql.acquireLease(ROUTE, 800, NOW);
        sql.recordRequest(ROUTE, NOW);
        sql.recordTokens(ROUTE, 800, NOW);
        sql.releaseLease(lease);
      },
    }),
  },
  {
    name: 'setCooldown + isOnCooldown',
    contenders: ({ core, sql }) => ({
      ours: () => {
        core.setCooldown(platform, modelId, keyId, 90_000, 'heuristic');
        return core.isOnCooldown(platform, modelId, keyId);
      },
      'plain SQL': () => {
        sql.setCooldown(ROUTE, 90_000, 'heuristic', NOW);
        return sql.isOnCooldown(ROUTE, NOW);
      },
    }),
  },
  {
    name: 'cooldown decision',
    contenders: ({ core, sql }) => ({
      ours: () => core.getCooldownDecisionForLimit(platform, modelId, keyId, LIMITS),
      'plain SQL': () => sql.dailyExhausted(ROUTE, LIMITS, NOW),
    }),
  },
];
