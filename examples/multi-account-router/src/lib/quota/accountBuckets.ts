import { quotaCore } from './core.js';

export const { recordUsage, isBucketSaturated, updateAccountBuckets } = quotaCore;
export const _clearBucketsForTest = quotaCore.reset;
