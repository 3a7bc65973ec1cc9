// A second process that consumes on the host's file.
//   node share-child.mjs <file> <count>          consumes 1 `count` times
//   node share-child.mjs <file>                  consumes until it is killed; acknowledges each on stdout
import { writeSync } from 'node:fs';
import quotaCore from '../../index.js';
import { openDatabase } from './driver.mjs';

const [file, count] = process.argv.slice(2);
const db = openDatabase(file);
const core = quotaCore.createQuotaCore({ database: db, clock: () => 1_790_000_000_000 });
const store = core.getSqliteQuotaStore();
const dimension = { poolId: 'p', unit: 'requests', window: 'hourly' };

writeSync(1, 'ready\n');
if (count === undefined) {
  for (let acknowledged = 1; ; acknowledged += 1) {
    await store.consume('k1', dimension, 1);
    writeSync(1, `${acknowledged}\n`);
  }
}
for (let index = 0; index < Number(count); index += 1) await store.consume('k1', dimension, 1);
core.close();
db.close();
