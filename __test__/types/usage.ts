// Compiled by `npm run check`, never run: what the types must accept, and what they must refuse.

import {
  type CooldownDecision,
  canMakeRequest,
  configure,
  createQuotaCore,
  type EnforceDecision,
  type Limits,
  type QuotaCore,
  QuotaCoreError,
} from '../../index.js';

const limits: Limits = { rpm: 30, rpd: null, tpm: undefined };

// Connections are known by their shape: the package's types need neither better-sqlite3's nor Node's.
declare const betterSqlite3: { loadExtension(path: string): unknown; prepare(sql: string): unknown };
declare const adapter: { raw: object; query(sql: string): unknown };
const core: QuotaCore = createQuotaCore({ database: betterSqlite3 });
createQuotaCore({ database: () => adapter });
createQuotaCore({ database: () => undefined, clock: () => 0, env: {}, compat: 'recorded' });
createQuotaCore({ database: 'quota.db', probe: async (keyId) => (keyId > 0 ? 'valid' : 'invalid') });
configure();

// Functions do not need their instance.
const { acquireLease, releaseLease } = core;
const lease: number = acquireLease('groq', 'm', 1, 100);
releaseLease(lease);
const may: boolean = canMakeRequest('groq', 'm', 1, limits);
const decision: CooldownDecision = core.cooldownDecisionForError(
  { platform: 'groq', modelId: 'm', keyId: 1, rpdLimit: null, tpdLimit: null },
  { status: 429, message: 'slow down' },
);
core.setCooldown('groq', 'm', 1, decision.durationMs, decision.source);
const stop: () => void = core.on('limit_learned', ({ kind, limit }) => [kind, limit]);
stop();
const code: string = new QuotaCoreError('ERR_QUOTA_CLOSED', 'closed').code;

// A lease that was taken is a number; on a dry run there may be none.
const admission = core.admit([{ platform: 'groq', modelId: 'm', keyId: 1, limits, estimatedTokens: 100 }]);
if (admission.admitted) core.settle(admission.leaseId, { tokens: 90 });
const refused: string[] = admission.admitted ? [] : admission.refusals.map(({ axis }) => axis);
const dry = core.admit({ platform: 'groq', modelId: 'm', keyId: 1, limits }, { dryRun: true });
// @ts-expect-error a dry run took no lease
if (dry.admitted) core.cancel(dry.leaseId);

// Quota sharing: asynchronous where a store or a signal may be elsewhere.
const request = { apiKeyId: 'key', connectionId: 'connection', provider: 'kimi', model: 'k2' };
export async function enforce(): Promise<number | undefined> {
  const share: EnforceDecision = await core.enforceQuotaShare(request);
  if (share.kind === 'block') return share.httpStatus;
  core.scheduleRecordConsumption({ ...request, cost: { tokens: 10, requests: 1 } });
  const { target, decrementInflight } = core.selectQuotaShareTarget(
    [{ executionKey: 'a', connectionId: 'c1', weight: 2, note: 'kept' }],
    'combo',
    'kimi/k2',
  );
  const note: string | undefined = target?.note;
  decrementInflight();
  return note?.length;
}

// @ts-expect-error a limit is a number or null
canMakeRequest('groq', 'm', 1, { rpm: '30' });
// @ts-expect-error limits are required
canMakeRequest('groq', 'm', 1);
// @ts-expect-error a key is a number
canMakeRequest('groq', 'm', '1', limits);
// @ts-expect-error there is no such source
core.setCooldown('groq', 'm', 1, 1000, 'guess');
// @ts-expect-error there is no such event
core.on('nothing', () => {});
// @ts-expect-error a number is no database
createQuotaCore({ database: 5 });

export { code, may, refused };
