import { quotaCore } from './core.js';

export const { decideFairShare } = quotaCore;
export type { FairShareDecision, FairShareInput } from 'quota-core';
