import { quotaCore } from '../quota/core.js';

export const { getProviderPlan, listProviderPlans, upsertProviderPlan, deleteProviderPlan } = quotaCore;
export const { getPlan, listPlans, upsertPlan, deletePlan } = quotaCore;
