import { type CooldownSource, createQuotaCore, type Limits, type QuotaCore } from 'quota-core';

const limits: Limits = { rpm: 1, rpd: null, tpm: null, tpd: null };
const core: QuotaCore = createQuotaCore({ database: ':memory:', clock: () => 1_800_000_000_000 });
core.recordRequest('groq', 'm', 1);
const may: boolean = core.canMakeRequest('groq', 'm', 1, limits);
const { durationMs, source }: { durationMs: number; source: CooldownSource } = core.getCooldownDecisionForLimit(
  'groq',
  'm',
  1,
  { rpd: null, tpd: null },
);
core.setCooldown('groq', 'm', 1, durationMs, source);
// @ts-expect-error a limit is a number or null
export const refused = (): boolean => core.canMakeRequest('groq', 'm', 1, { ...limits, rpm: '1' });
if (may || !core.isOnCooldown('groq', 'm', 1)) throw new Error('wrong answer');
core.close();
console.log('consumer ok');
