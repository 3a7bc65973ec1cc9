import assert from 'node:assert/strict';
import Database from 'better-sqlite3';
import { createQuotaCore } from 'quota-core';

const db = new Database(':memory:');
db.exec(`CREATE TABLE rate_limit_usage (id INTEGER PRIMARY KEY, platform TEXT NOT NULL, model_id TEXT NOT NULL,
  key_id INTEGER NOT NULL, kind TEXT NOT NULL, tokens INTEGER NOT NULL DEFAULT 0, created_at_ms INTEGER NOT NULL)`);
const core = createQuotaCore({ database: () => db });
const limits = { rpm: 1, rpd: null, tpm: null, tpd: null };
db.exec('BEGIN');
core.recordRequest('groq', 'm', 1);
assert.equal(core.canMakeRequest('groq', 'm', 1, limits), false);
db.exec('ROLLBACK');
assert.equal(core.canMakeRequest('groq', 'm', 1, limits), true);
core.recordRequest('groq', 'm', 1);
assert.equal(db.prepare('SELECT count(*) AS n FROM rate_limit_usage').get().n, 1);
core.close();
db.close();
console.log('consumer ok');
