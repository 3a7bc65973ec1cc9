import { quotaCore } from './core.js';

export const { getKnownPlan, knownProviders } = quotaCore;
