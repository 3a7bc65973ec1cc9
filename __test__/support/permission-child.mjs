// Runs under `--permission`, where no connection may load extensions: prints what attach says and that memory answers.
//   node permission-child.mjs <folder>
import { join } from 'node:path';
import quotaCore from '../../index.js';
import { noLimits } from './host.mjs';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');

function connect() {
  try {
    return new DatabaseSync(join(process.argv[2], 'host.db'), { allowExtension: true });
  } catch (error) {
    // Node refuses the option itself: what is left is a connection without extensions.
    if (error.code !== 'ERR_LOAD_SQLITE_EXTENSION' && error.code !== 'ERR_ACCESS_DENIED') throw error;
    return new DatabaseSync(join(process.argv[2], 'host.db'));
  }
}

const db = connect();
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const core = quotaCore.createQuotaCore({ database: () => db, logger: silent });
core.recordRequest('p', 'm', 1);
core.recordRequest('p', 'm', 1);
const { used } = core.getRateLimitStatus('p', 'm', 1, noLimits).rpm;
let attach = 'attached';
try {
  core.attach(db);
} catch (error) {
  attach = error.code;
}
console.log(JSON.stringify({ attach, used }));
core.close();
db.close();
