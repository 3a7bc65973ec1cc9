import assert from 'node:assert/strict';
import quotaCore, { canMakeRequest, configure, createQuotaCore, recordRequest } from 'quota-core';

assert.equal(quotaCore.createQuotaCore, createQuotaCore);
const limits = { rpm: 1, rpd: null, tpm: null, tpd: null };
configure({ database: ':memory:' });
assert.equal(canMakeRequest('groq', 'm', 1, limits), true);
recordRequest('groq', 'm', 1);
assert.equal(quotaCore.canMakeRequest('groq', 'm', 1, limits), false);
console.log('consumer ok');
