// A worker thread that loads the addon, uses it on a connection of its own, and ends as it is told.

import { createRequire } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from './driver.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('../..');
const db = openDatabase(workerData.file);
db.exec('PRAGMA busy_timeout = 20000');
const core = createQuotaCore({ database: db });
const limits = { rpm: 1_000_000, rpd: null, tpm: null, tpd: null };
for (let index = 0; index < 20; index++) {
  core.recordRequest('groq', 'm', workerData.keyId);
  core.canMakeRequest('groq', 'm', workerData.keyId, limits);
}
parentPort.postMessage(core.getRateLimitStatus('groq', 'm', workerData.keyId, limits).rpm.used);
if (workerData.ends === 'close') {
  core.close();
  db.close();
} else if (workerData.ends === 'exit') {
  process.exit(0);
} else if (workerData.ends === 'terminate') {
  setInterval(() => {}, 1000);
}
