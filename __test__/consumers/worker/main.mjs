import assert from 'node:assert/strict';
import { once } from 'node:events';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { createQuotaCore } from 'quota-core';

const core = createQuotaCore({ database: ':memory:' });
core.recordRequest('groq', 'm', 1);
const refused = !core.canMakeRequest('groq', 'm', 1, { rpm: 1, rpd: null, tpm: null, tpd: null });
if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url));
  const [answer] = await once(worker, 'message');
  assert.deepEqual([refused, answer], [true, true]);
  console.log('consumer ok');
} else {
  parentPort.postMessage(refused);
}
