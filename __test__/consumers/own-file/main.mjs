import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createQuotaCore } from 'quota-core';

await assert.rejects(import('better-sqlite3'), { code: 'ERR_MODULE_NOT_FOUND' });
const folder = mkdtempSync(join(tmpdir(), 'quota-core-'));
const database = join(folder, 'quota.db');
const limits = { rpm: null, rpd: 1, tpm: null, tpd: null };
const first = createQuotaCore({ database });
first.recordRequest('groq', 'm', 1);
first.close();
const second = createQuotaCore({ database });
assert.equal(second.canMakeRequest('groq', 'm', 1, limits), false);
second.close();
assert.equal(existsSync(`${database}-wal`), false);
rmSync(folder, { recursive: true });
console.log('consumer ok');
