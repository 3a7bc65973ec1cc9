import { quotaCore } from './core.js';

export const { enforceQuotaShare, recordConsumption, onQuotaExceeded } = quotaCore;
export type { EnforceDecision, EnforceInput } from 'quota-core';
