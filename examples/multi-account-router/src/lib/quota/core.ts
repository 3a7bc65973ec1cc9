// The host's one instance. Its quota modules become re-exports of what it holds.
import { createQuotaCore } from 'quota-core';
import { getDbInstance } from '../db/core.js';
import { usageFetchers } from '../providerUsage.js';
import { getSettings } from '../settings.js';

export const quotaCore = createQuotaCore({ database: getDbInstance, settings: getSettings });

quotaCore.setSaturationFetchers(usageFetchers);
