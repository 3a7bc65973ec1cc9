// Runs under a limit on file sizes (`ulimit -f`): records until the -wal file cannot grow, frees room, records once more.
//   node small-disk-child.mjs <folder>
import { join } from 'node:path';
import quotaCore from '../../index.js';
import { openDatabase } from './driver.mjs';
import { createHostTables, noLimits } from './host.mjs';

const MARGIN = 20;

const file = join(process.argv[2], 'host.db');
const db = openDatabase(file);
createHostTables(db);
// Without automatic checkpoints the -wal file grows until it hits the limit.
db.exec('PRAGMA wal_autocheckpoint = 0');
const warnings = [];
const core = quotaCore.createQuotaCore({
  database: db,
  clock: () => 1_770_000_000_000,
  logger: { debug() {}, info() {}, warn: (...args) => warnings.push(args), error: (...args) => warnings.push(args) },
});
const count = () => db.prepare('SELECT COUNT(*) AS n FROM rate_limit_usage').get().n;
const used = () => core.getRateLimitStatus('p', 'm', 1, noLimits).rpm.used;

let recorded = 0;
while (recorded - count() < MARGIN) {
  core.recordRequest('p', 'm', 1);
  recorded += 1;
}
const refused = recorded - count();
const usedThen = used();
db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
core.recordRequest('p', 'm', 1);
console.log(
  JSON.stringify({ recorded, refused, usedThen, usedAfter: used(), rowsAfter: count(), warnings: warnings.length }),
);
core.close();
db.close();
