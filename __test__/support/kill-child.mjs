// Records events for as long as it lives and acknowledges each on stdout after the call returned:
//   node kill-child.mjs <file> <first number>
// The number of an event is its token count, so that the parent can tell the rows apart. `t <n>` acknowledges a record,
// `c <n>` a cooldown of that key id; events inside a transaction of the host are acknowledged after its commit.
import { writeSync } from 'node:fs';
import quotaCore from '../../index.js';
import { openDatabase } from './driver.mjs';

const [file, first] = process.argv.slice(2);
const db = openDatabase(file);
const core = quotaCore.createQuotaCore({ database: db });
const acknowledge = (kind, number) => writeSync(1, `${kind} ${number}\n`);

let number = Number(first);
acknowledge('ready', number);
for (;;) {
  if (number % 50 === 0) {
    db.exec('BEGIN');
    for (let index = 0; index < 5; index += 1) core.recordTokens('p', 'm', 1, number + index);
    db.exec('COMMIT');
    for (let index = 0; index < 5; index += 1) acknowledge('t', number + index);
    number += 5;
  } else if (number % 10 === 0) {
    core.setCooldown('p', 'm', number, 3_600_000);
    acknowledge('c', number);
    number += 1;
  } else {
    core.recordTokens('p', 'm', 1, number);
    acknowledge('t', number);
    number += 1;
  }
}
