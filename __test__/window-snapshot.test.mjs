// The window snapshot costs one scan of usage and one statement on the keys per 5 s, whatever is asked of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import quotaCore from '../index.js';
import { Host, noLimits } from './support/host.mjs';

const KEYS = 50;
const MODELS = 40;

/**
 * Replaces the two tables by views that call `tick` where a statement reads them, once for each mention: this counts
 * statements that the host's own tracing cannot see.
 */
function countReads(host) {
  const reads = { rate_limit_usage: 0, api_keys: 0 };
  host.db.function('tick', (table) => {
    reads[table] += 1;
    return 1;
  });
  for (const table of Object.keys(reads)) {
    host.sql(`ALTER TABLE ${table} RENAME TO ${table}_base`);
    host.sql(`CREATE TEMP VIEW ${table} AS SELECT * FROM ${table}_base WHERE (SELECT tick('${table}'))`);
  }
  return reads;
}

function manyRoutes(t) {
  const host = new Host(t);
  for (let keyId = 1; keyId <= KEYS; keyId += 1) {
    host.addKey(keyId, 'p');
    for (let model = 0; model < MODELS; model += 1) host.addUsage('p', `m${model}`, keyId, 'request', 0, host.now - 1);
  }
  return host;
}

const fraction = (host, model, limits = { ...noLimits, rpm: 4 }) =>
  host.core.modelWindowUsedFraction({ platform: 'p', modelId: `m${model}` }, limits);

test('one scan, and a cost that no model or key adds to', (t) => {
  const host = manyRoutes(t);
  const reads = countReads(host);
  const askAll = () => {
    for (let model = 0; model < MODELS; model += 1) assert.equal(fraction(host, model), 0.25);
  };
  fraction(host, 0);
  assert.equal(reads.rate_limit_usage, 1);
  const cost = { ...reads };
  askAll();
  host.advance(quotaCore.WINDOW_USAGE_TTL_MS - 1);
  askAll();
  assert.deepEqual(reads, cost);
  host.advance(1);
  askAll();
  assert.deepEqual(reads, { rate_limit_usage: 2, api_keys: 2 * cost.api_keys });
  host.core.invalidateWindowUsage();
  askAll();
  assert.deepEqual(reads, { rate_limit_usage: 3, api_keys: 3 * cost.api_keys });
});

test('no declared limit needs no read', (t) => {
  const host = manyRoutes(t);
  const reads = countReads(host);
  assert.equal(fraction(host, 0, noLimits), null);
  assert.deepEqual(reads, { rate_limit_usage: 0, api_keys: 0 });
});

test('another connection is another snapshot', (t) => {
  const host = manyRoutes(t);
  assert.equal(fraction(host, 0), 0.25);
  host.sql('DELETE FROM rate_limit_usage');
  assert.equal(fraction(host, 0), 0.25);
  host.reopen();
  assert.equal(fraction(host, 0), 0);
});
