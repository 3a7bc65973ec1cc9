import { quotaCore } from './core.js';

export const { computeBurnRate, computeBurnRateFromWindow } = quotaCore;
