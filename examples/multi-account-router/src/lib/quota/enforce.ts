import { quotaCore } from './core.js';

export const { enforceQuotaShare, recordConsumption, onQuotaExceeded } = quotaCore;
export type { EnforceDecision, EnforceRequest } from 'quota-core';
