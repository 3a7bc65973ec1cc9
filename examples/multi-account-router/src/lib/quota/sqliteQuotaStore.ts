import { quotaCore } from './core.js';

export const { SqliteQuotaStore, getSqliteQuotaStore, resetSqliteQuotaStore } = quotaCore;
