'use strict';

const assert = require('node:assert/strict');
const quotaCore = require('quota-core');
const { createQuotaCore, canMakeRequest, configure, QuotaCoreError } = require('quota-core');

const limits = { rpm: 1, rpd: null, tpm: null, tpd: null };
const core = createQuotaCore({ database: ':memory:' });
assert.equal(core.canMakeRequest('groq', 'm', 1, limits), true);
core.recordRequest('groq', 'm', 1);
assert.equal(core.canMakeRequest('groq', 'm', 1, limits), false);
core.close();
assert.throws(
  () => core.canMakeRequest('groq', 'm', 1, limits),
  (error) => error instanceof QuotaCoreError && error.code === 'ERR_QUOTA_CLOSED',
);

configure({ database: ':memory:' });
quotaCore.recordRequest('groq', 'm', 2);
assert.equal(canMakeRequest('groq', 'm', 2, limits), false);
console.log('consumer ok');
