// Answers from memory are those of SQL, whatever happens to the database: two other processes that never stop writing,
// host SQL on the instances' own connection, transactions, schema changes, checkpoints, journal modes, images that
// `deserialize` puts in the database's place, further instances and a second copy of the package on the same connection.
// Each fourth answer is compared with SQL at the same moment.
//
// QUOTA_STRESS_READS  questions in all (default 3 000 000 with `npm run stress`, fewer in `npm test`)
// QUOTA_STRESS_SEED   first seed (default 1); a failure names the seed to run again
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import quotaCore from '../index.js';
import { hasNodeSqlite, openDatabase } from './support/driver.mjs';
import { createHostTables, newerHostSchema } from './support/host.mjs';
import { Random } from './support/random.mjs';
import { startNode } from './support/run-node.mjs';
import { StressWorld } from './support/stress/world.mjs';
import { tempFolder } from './support/temp.mjs';

const reads = Number(process.env.QUOTA_STRESS_READS ?? 200_000);
const firstSeed = Number(process.env.QUOTA_STRESS_SEED ?? 1);
const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);

/** A second copy of the package, with an addon file of its own. */
function copyOfPackage(t) {
  const folder = join(tempFolder(t), 'quota-core');
  mkdirSync(folder);
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const addons = readdirSync(root).filter((name) => name.endsWith('.node'));
  for (const name of ['package.json', ...files, ...addons])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  return require(folder);
}

function fillHost(db) {
  createHostTables(db, newerHostSchema);
  db.exec('CREATE TABLE once (x UNIQUE)');
  for (const [id, platform] of [
    [1, 'groq'],
    [2, 'groq'],
    [3, 'navy'],
  ]) {
    db.exec(
      `INSERT INTO api_keys (id, platform, encrypted_key, iv, auth_tag, status) VALUES (${id}, '${platform}', 'x', 'x', 'x', 'healthy')`,
    );
  }
  for (const model of ['m', 'a:b', 'm:1']) {
    db.exec(
      `INSERT INTO models (platform, model_id, display_name, intelligence_rank, speed_rank) VALUES ('navy', '${model}', 'n', 1, 1)`,
    );
  }
}

function report(t, world, seed) {
  t.diagnostic(`${world.reads} answers, ${world.compared} compared, seed ${seed}`);
  assert.deepEqual(world.wrong.slice(0, 1), [], `seed ${seed}`);
  assert.ok(world.compared > world.reads / 5, 'each fourth answer is compared');
  const metrics = world.instances[0].core.metrics();
  const hits = Number(/^quota_core_index_hits_total (\d+)/m.exec(metrics)[1]);
  t.diagnostic(`${hits} questions answered from memory by the first instance`);
  assert.ok(hits > world.reads / 20, 'memory answers');
}

/** Runs `work` while two other processes write to the file. */
async function withWriters(file, start, work) {
  const writers = [11, 12].map((seed) => startNode('stress/writer-child.mjs', [JSON.stringify({ file, seed, start })]));
  const ended = Promise.all(writers.map((child) => once(child, 'exit')));
  try {
    for (const child of writers) {
      child.stderr.pipe(process.stderr);
      await once(child.stdout, 'data');
    }
    work();
    assert.deepEqual(
      writers.map((child) => child.exitCode),
      [null, null],
      'the writers wrote to the end',
    );
  } finally {
    for (const child of writers) child.stdin.end();
    await ended;
  }
}

test('a file that two other processes write to', async (t) => {
  const file = join(tempFolder(t), 'host.db');
  const db = openDatabase(file);
  t.after(() => db.close());
  fillHost(db);
  const world = new StressWorld({ db, random: new Random(firstSeed), packages: [quotaCore, copyOfPackage(t)] });
  t.after(() => world.close());
  await withWriters(file, world.now, () => world.go(reads * 0.6));
  report(t, world, firstSeed);
});

test('a file of this process alone, and databases in memory', async (t) => {
  for (const [place, file] of [join(tempFolder(t), 'host.db'), ':memory:'].entries()) {
    const seed = firstSeed + 1 + place;
    const db = openDatabase(file);
    fillHost(db);
    const exclude = file === ':memory:' ? ['journal', 'exclusive', 'checkpoint'] : [];
    const world = new StressWorld({ db, random: new Random(seed), packages: [quotaCore], exclude });
    world.go(reads * 0.15);
    report(t, world, seed);
    world.close();
    db.close();
  }
});

// better-sqlite3 has no such thing, and node:sqlite only from Node 24 on.
const deserialize = hasNodeSqlite() && process.getBuiltinModule('node:sqlite').DatabaseSync.prototype.deserialize;
const imagesTest = deserialize ? test : () => {};

imagesTest('a database in whose place images are put', (t) => {
  const seed = firstSeed + 3;
  const random = new Random(seed);
  const db = openDatabase(':memory:', { driver: 'node:sqlite' });
  t.after(() => db.close());
  fillHost(db);
  // SQLite itself does not survive a temporary trigger or view on a database that is swapped.
  const exclude = ['journal', 'exclusive', 'checkpoint', 'trigger', 'noTriggers', 'shadow'];
  const world = new StressWorld({ db, random, packages: [quotaCore], exclude });
  t.after(() => world.close());
  const images = [];
  while (world.reads < reads * 0.1) {
    world.go(200);
    if (images.length < 8) images.push(db.serialize());
    else images[random.int(0, 7)] = db.serialize();
    for (let count = random.int(1, 3); count > 0; count -= 1) {
      db.deserialize(random.pick(images));
      world.use(db);
      if (random.chance(0.5)) world.ask();
    }
  }
  assert.deepEqual(world.wrong.slice(0, 1), [], `seed ${seed}`);
});
