// Never lost, never invented: random operations on a real file answer as a naive model does, through host transactions,
// host SQL, schema changes, closing and reopening.
//
// QUOTA_TEST_PROPERTY_OPS   operations in all (default 200 000)
// QUOTA_TEST_PROPERTY_SEED  first seed (default 1); a failure names the seed to run again
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareTables } from './support/property/questions.mjs';
import { World } from './support/property/world.mjs';
import { Random } from './support/random.mjs';

const operations = Number(process.env.QUOTA_TEST_PROPERTY_OPS ?? 200_000);
const firstSeed = Number(process.env.QUOTA_TEST_PROPERTY_SEED ?? 1);

// Each run takes its share of the operations: with the exact index in memory, and with SQL alone.
const runs = [{}, {}, { index: false }, { index: false }];

for (const [index, coreOptions] of runs.entries()) {
  const seed = firstSeed + index;
  const share = Math.ceil(operations / runs.length);
  test(`${share} operations, seed ${seed}, options ${JSON.stringify(coreOptions)}`, (t) => {
    const world = new World(t, new Random(seed), coreOptions);
    for (let count = 0; count < share; count += 1) {
      try {
        world.step();
      } catch (error) {
        error.message = `operation ${count} of seed ${seed}, at ${world.now}: ${error.message}\nlast:\n  ${world.trail.join('\n  ')}`;
        throw error;
      }
    }
    compareTables(world);
    assert.deepEqual(
      world.host.warnings.filter(([, message]) => /corrupt|malformed/i.test(message)),
      [],
    );
  });
}
