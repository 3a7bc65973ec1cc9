// kill -9 at random moments: every record that was acknowledged is there once, nothing else is, and the file is sound.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openDatabase } from './support/driver.mjs';
import { createHostTables } from './support/host.mjs';
import { Random } from './support/random.mjs';
import { startNode } from './support/run-node.mjs';
import { tempFolder } from './support/temp.mjs';

const kills = Number(process.env.QUOTA_TEST_KILLS ?? 200);
const lanes = 2;
// One run writes far fewer: numbers of different runs never meet.
const NUMBERS_PER_RUN = 1_000_000;
const LONGEST_RUN_MS = 60;

/** Lets a child write until it is killed; what it acknowledged, by kind. */
async function runAndKill(file, first, afterMs) {
  const child = startNode('kill-child.mjs', [file, String(first)]);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    if (output === '') setTimeout(() => child.kill('SIGKILL'), afterMs);
    output += text;
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const [, signal] = await new Promise((resolve) => child.once('close', (...args) => resolve(args)));
  assert.equal(signal, 'SIGKILL', errors);
  // The last line may be cut: a number that was written in part was not acknowledged.
  const lines = output
    .slice(0, output.lastIndexOf('\n'))
    .split('\n')
    .map((line) => line.split(' '));
  const numbers = (kind) => lines.filter(([name]) => name === kind).map(([, number]) => Number(number));
  return { tokens: numbers('t'), cooldowns: numbers('c') };
}

/** The file as it is after a kill, read without the addon: numbers of one run, by kind. */
function readBack(file, first) {
  const db = openDatabase(file);
  try {
    assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    const numbers = (sql) =>
      db
        .prepare(sql)
        .all(first, first + NUMBERS_PER_RUN - 1)
        .map((row) => row.number);
    return {
      tokens: numbers('SELECT tokens AS number FROM rate_limit_usage WHERE tokens BETWEEN ? AND ? ORDER BY tokens'),
      cooldowns: numbers(
        'SELECT key_id AS number FROM rate_limit_cooldowns WHERE key_id BETWEEN ? AND ? ORDER BY key_id',
      ),
    };
  } finally {
    db.close();
  }
}

/** Everything acknowledged, in order, and at most what one more call had committed before its acknowledgement. */
function assertKept(acknowledged, found, most, what) {
  assert.deepEqual(found.slice(0, acknowledged.length), acknowledged, what);
  assert.ok(
    found.length - acknowledged.length <= most,
    `${what}: ${found.length} rows for ${acknowledged.length} acknowledged`,
  );
}

describe('kill -9', { concurrency: lanes }, () => {
  for (let lane = 0; lane < lanes; lane += 1) {
    test(`lane ${lane}`, async (t) => {
      const random = new Random(lane + 1);
      const file = join(tempFolder(t), 'host.db');
      const db = openDatabase(file);
      createHostTables(db);
      db.close();
      let total = 0;
      for (let run = 1; run <= kills / lanes; run += 1) {
        const first = run * NUMBERS_PER_RUN + 1;
        const acknowledged = await runAndKill(file, first, random.next() * LONGEST_RUN_MS);
        const found = readBack(file, first);
        assertKept(acknowledged.tokens, found.tokens, 5, `tokens of run ${run}`);
        assertKept(acknowledged.cooldowns, found.cooldowns, 1, `cooldowns of run ${run}`);
        total += acknowledged.tokens.length;
      }
      assert.ok(total > kills, `only ${total} records were acknowledged`);
    });
  }
});
