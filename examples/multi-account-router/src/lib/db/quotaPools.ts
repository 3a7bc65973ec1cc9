import { quotaCore } from '../quota/core.js';

export const { listPools, getPool, getPoolsByGroup, createPool, updatePool, deletePool } = quotaCore;
export const { upsertAllocations, listAllocationsForApiKey, onPoolChanged, onPoolRemoved } = quotaCore;
