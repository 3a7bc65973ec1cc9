import { quotaCore } from './core.js';

export const { scheduleRecordConsumption, buildConsumptionCost, recordStreamingConsumption } = quotaCore;
