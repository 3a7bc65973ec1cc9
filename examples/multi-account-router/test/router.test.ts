import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { _clearInflightForTest, getInflight } from '../src/combo/quotaShareInflight.js';
import { selectQuotaShareTarget } from '../src/combo/quotaShareStrategy.js';
import { openDb } from '../src/lib/db/core.js';
import { upsertPlan } from '../src/lib/db/providerPlans.js';
import { createPool, deletePool, getPool, listPools } from '../src/lib/db/quotaPools.js';
import { usageAnswers } from '../src/lib/providerUsage.js';
import { isBucketSaturated } from '../src/lib/quota/accountBuckets.js';
import { quotaCore } from '../src/lib/quota/core.js';
import { enforceQuotaShare, onQuotaExceeded, recordConsumption } from '../src/lib/quota/enforce.js';
import { resolveQuotaKeyScope } from '../src/lib/quota/quotaModelNaming.js';
import { getSaturation } from '../src/lib/quota/saturationSignals.js';

const request = { apiKeyId: 'k1', connectionId: 'c1', provider: 'codex' };

beforeEach(() => {
  const db = openDb(':memory:');
  const now = new Date().toISOString();
  db.run(
    'INSERT INTO provider_connections (id, provider, created_at, updated_at) VALUES (?, ?, ?, ?)',
    'c1',
    'codex',
    now,
    now,
  );
  quotaCore.reset();
  quotaCore.ensureQuotaSchema();
});

function twoKeys(limit: number) {
  upsertPlan('c1', 'codex', [{ unit: 'requests', window: 'hourly', limit }], 'manual');
  return createPool({
    connectionId: 'c1',
    name: 'Team',
    allocations: [
      { apiKeyId: 'k1', weight: 50, policy: 'hard' },
      { apiKeyId: 'k2', weight: 50, policy: 'hard' },
    ],
  });
}

test('before the pool there is nothing to share; then the limit holds', async () => {
  assert.deepEqual(await enforceQuotaShare(request), { kind: 'allow' });
  twoKeys(2);
  const blocked: unknown[] = [];
  const off = onQuotaExceeded((event) => void blocked.push(event));
  for (let turn = 0; turn < 2; turn++) {
    assert.equal((await enforceQuotaShare(request)).kind, 'allow');
    await recordConsumption({ ...request, cost: {} });
  }
  const decision = await enforceQuotaShare(request);
  assert.equal(decision.kind, 'block');
  assert.equal(decision.kind === 'block' && decision.httpStatus, 429);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(blocked.length, 1);
  off();
});

test('what the host rolls back is rolled back', () => {
  const { raw } = openDb(':memory:');
  quotaCore.ensureQuotaSchema();
  raw.exec('BEGIN');
  const pool = twoKeys(2);
  assert.equal(getPool(pool.id)?.name, 'Team');
  raw.exec('ROLLBACK');
  assert.equal(getPool(pool.id), null);
});

test('pools, scopes and their removal', () => {
  const pool = twoKeys(2);
  assert.deepEqual(resolveQuotaKeyScope([pool.id]).connectionIds, ['c1']);
  assert.equal(deletePool(pool.id), true);
  assert.deepEqual(listPools(), []);
});

test("the provider's usage steers the selection", async () => {
  usageAnswers.set('a', { quotas: { 'session (5h)': { used: 100, resetAt: null } } });
  assert.equal(await getSaturation('a', 'claude', { unit: 'percent', window: '5h' }), 1);
  assert.equal(isBucketSaturated('a', '5h'), true);
  const targets = ['a', 'b'].map((connectionId) => ({ executionKey: connectionId, connectionId, weight: 1 }));
  const { target, decrementInflight } = selectQuotaShareTarget(targets, 'combo', 'claude/opus');
  assert.equal(target?.connectionId, 'b');
  assert.equal(getInflight('b'), 1);
  decrementInflight();
  assert.equal(getInflight('b'), 0);
});

test('the test seams give a fresh start', () => {
  selectQuotaShareTarget([{ executionKey: 'e', connectionId: 'c' }], 'combo', 'p/m');
  _clearInflightForTest();
  assert.equal(getInflight('c'), 0);
});
