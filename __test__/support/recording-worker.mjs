// A worker thread that records through a connection and an instance of its own.
import { workerData } from 'node:worker_threads';
import quotaCore from '../../index.js';
import { openDatabase } from './driver.mjs';

const { file, keyId, count, now } = workerData;
const db = openDatabase(file);
db.exec('PRAGMA synchronous = OFF');
const core = quotaCore.createQuotaCore({ database: db, clock: () => now });
for (let index = 0; index < count; index += 1) core.recordRequest('p', 'm', keyId);
core.close();
db.close();
