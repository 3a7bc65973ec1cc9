import { quotaCore } from '../quota/core.js';

export const { getBucket, incrementBucket, getPair, sumPoolDimension, listConsumptionForPool } = quotaCore;
export const { gcOlderThan, collectQuotaGarbage } = quotaCore;
