import { quotaCore } from './core.js';

export const { quotaGroupSlug, quotaPoolSlug, quotaModelName, parseQuotaModelName, isQuotaModelName } = quotaCore;
export const { constrainConnectionsToQuota, resolveQuotaKeyScope, reconcilePoolExclusivity } = quotaCore;
