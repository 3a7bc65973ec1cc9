// Connects to Redis and does nothing more: the process, or the worker thread, must end by itself.
import { createRequire } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';

const { createQuotaCore } = createRequire(import.meta.url)('../../index.js');

const url = workerData?.url ?? process.argv[2];
const core = createQuotaCore({ redis: { url }, logger: { warn() {} } });
const store = core.getRedisQuotaStore();
const dimension = { poolId: 'p', unit: 'requests', window: 'hourly' };
await store.consume('k', dimension, 1);
if (workerData?.busy) {
  const spend = () => store.consume('k', dimension, 1).then(spend, spend);
  for (let index = 0; index < 20; index += 1) spend();
}
if (parentPort) parentPort.postMessage('connected');
else console.log('connected');
