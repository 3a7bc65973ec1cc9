import { quotaCore } from './core.js';

export const { resolvePlan } = quotaCore;
