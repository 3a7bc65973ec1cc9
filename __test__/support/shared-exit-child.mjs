// Asks for shared admission and does nothing more: the process, or the worker thread, must end by itself.
import { createRequire } from 'node:module';
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

const { createQuotaCore } = createRequire(import.meta.url)('../../index.js');

const url = workerData?.url ?? process.argv[2];
const core = createQuotaCore({ redis: { url }, env: {}, logger: { warn() {} } });
const limits = { rpm: null, rpd: null, tpm: null, tpd: null };
const ask = () => core.admitShared({ platform: 'groq', modelId: 'm', keyId: 1, limits });
for (let call = 0; call < 5; call += 1) {
  await ask();
  await wait(5);
}
if (workerData?.busy) {
  const again = () => ask().then(again, again);
  for (let index = 0; index < 20; index += 1) again();
}
if (parentPort) parentPort.postMessage('connected');
else console.log('connected');
