// However a host lets go of its connection, the files left on disk are those it would leave without the addon.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { availableDrivers, driverName, openDatabase } from './support/driver.mjs';
import { createHostTables } from './support/host.mjs';
import { runNode } from './support/run-node.mjs';
import { tempFolder } from './support/temp.mjs';

const endings = [
  'close',
  'close twice attached',
  'detach, close',
  'close in transaction',
  'dispose',
  'gc',
  'gc, instance kept',
  'natural end',
  'process.exit',
  'uncaught exception',
  'worker end',
  'worker process.exit',
  'worker terminate',
];
const orders = ['addon-first', 'host-first'];
// Under a matrix run for one driver only that one is walked; its siblings have runs of their own.
const drivers = process.env.QUOTA_TEST_DRIVER ? [driverName] : availableDrivers();

function canDispose(driver) {
  if (Symbol.dispose === undefined) return false;
  const db = openDatabase(':memory:', { driver });
  const can = typeof db[Symbol.dispose] === 'function';
  db.close();
  return can;
}

async function runCell(folder, cell) {
  mkdirSync(folder);
  const file = join(folder, 'host.db');
  const db = openDatabase(file, { driver: cell.driver });
  createHostTables(db);
  db.close();
  const { code, signal, stdout, stderr } = await runNode('close-cell.mjs', [JSON.stringify({ ...cell, file })], {
    flags: ['--expose-gc'],
  });
  assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' });
  const result = { whileRunning: stdout.trim(), afterExit: readdirSync(folder).sort() };
  const after = openDatabase(file, { driver: cell.driver });
  result.integrity = { ...after.prepare('PRAGMA integrity_check').get() };
  result.hostRows = after.prepare("SELECT COUNT(*) AS n FROM rate_limit_usage WHERE platform = 'h'").get().n;
  const ourRows = after.prepare("SELECT COUNT(*) AS n FROM rate_limit_usage WHERE platform = 'p'").get().n;
  after.close();
  return { result, ourRows };
}

for (const driver of drivers) {
  describe(driver, { concurrency: 2 }, () => {
    for (const ending of endings) {
      if (ending === 'dispose' && !canDispose(driver)) continue;
      test(ending, async (t) => {
        const folder = tempFolder(t);
        const control = await runCell(join(folder, 'control'), { driver, ending, addon: false });
        assert.equal(control.ourRows, 0);
        for (const order of orders) {
          const { result, ourRows } = await runCell(join(folder, order), { driver, ending, order, addon: true });
          assert.deepEqual(result, control.result, order);
          assert.ok(ourRows > 0, 'the addon wrote to the file');
        }
      });
    }
  });
}
