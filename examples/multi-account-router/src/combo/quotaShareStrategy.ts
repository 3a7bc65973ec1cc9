import { quotaCore } from '../lib/quota/core.js';

export { INTERNAL_ROUTING_STRATEGY_VALUES, QUOTA_SHARE_STRATEGY } from 'quota-core';
export const { selectQuotaShareTarget, acquireQuotaShareConcurrencySlot, applySoftPenalty } = quotaCore;
export const { registerExecutionCandidates, unregisterExecutionCandidates } = quotaCore;
export const { setCandidateQuotaSoftPenalty } = quotaCore;
export const _resetDrrForTest = quotaCore.reset;
