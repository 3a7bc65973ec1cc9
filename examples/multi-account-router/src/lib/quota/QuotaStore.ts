import { quotaCore } from './core.js';

export const { getQuotaStore, getQuotaStoreSync, resetQuotaStoreSingleton } = quotaCore;
export type { QuotaStore } from 'quota-core';
