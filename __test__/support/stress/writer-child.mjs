// A process that changes the host's tables until its input ends: bursts of transactions, each on a connection
// of its own, so that the host finds moments in which it may change the journal mode.
//   node stress/writer-child.mjs '{"file":…,"seed":…,"start":…}'
import { openDatabase } from '../driver.mjs';
import { Random } from '../random.mjs';
import { hostChange } from './statements.mjs';

const { file, seed, start } = JSON.parse(process.argv[2]);
const random = new Random(seed);
const pause = new Int32Array(new SharedArrayBuffer(4));
const sleep = (ms) => Atomics.wait(pause, 0, 0, ms);

function burst() {
  const db = openDatabase(file, { busyTimeout: 2000 });
  try {
    db.exec('PRAGMA synchronous = OFF');
    for (let count = random.int(1, 4); count > 0; count -= 1) {
      db.exec('BEGIN IMMEDIATE');
      for (let rows = random.int(1, 3); rows > 0; rows -= 1) db.exec(hostChange(random, start));
      db.exec(random.chance(0.1) ? 'ROLLBACK' : 'COMMIT');
      if (random.chance(0.05)) db.exec('PRAGMA wal_checkpoint(PASSIVE)');
      sleep(random.int(1, 4));
    }
  } finally {
    db.close();
  }
}

// The parent ends the input when it has seen enough, and when it is gone.
process.stdin.on('end', () => process.exit(0)).resume();
console.log('writing');
for (;;) {
  try {
    burst();
  } catch (error) {
    // The host may hold the lock, or have changed the tables' shape under a transaction.
    if (!/SQLITE|sqlite/i.test(`${error.code}`)) throw error;
  }
  sleep(random.int(5, 40));
  await new Promise(setImmediate);
}
