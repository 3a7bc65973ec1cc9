// `npm test`: the engine without Node, the crate with its Node layer, then the built addon.
//
// npm test -- <word> …     only tests whose name holds a word (cargo) and test files whose name holds it (node)
// npm test -- --rust       only the two cargo runs
// npm test -- --node       only the tests of the built addon; with --prebuilt, of the addon that is there, however old
// npm test -- --without-redis   not the test files that start a redis-server, where there is none; says which

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensure } from './ensure.mjs';
import { cargo, cargoEnv, root, run } from './proc.mjs';

const args = process.argv.slice(2);
const only = args.filter((arg) => arg === '--rust' || arg === '--node');
const words = args.filter((arg) => !arg.startsWith('--'));
const prebuilt = args.includes('--prebuilt');
const withoutRedis = args.includes('--without-redis');
const known = ['--rust', '--node', '--prebuilt', '--without-redis'];
const unknown = args.filter((arg) => arg.startsWith('--') && !known.includes(arg));
if (unknown.length > 0) {
  console.error(`npm test: unknown option ${unknown.join(' ')} (known: ${known.join(', ')}, words of test names)`);
  process.exit(2);
}

function testFiles() {
  const files = readdirSync(join(root, '__test__'))
    .filter((name) => name.endsWith('.test.mjs'))
    .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
    .sort();
  return files.map((name) => join('__test__', name));
}

/** The files to run; the others are named, so that nobody takes them for passed. */
function chosenFiles() {
  const files = testFiles();
  if (!withoutRedis) return files;
  const needsRedis = (file) => readFileSync(join(root, file), 'utf8').includes('support/redis-server.mjs');
  console.log(`\nNOT RUN (--without-redis): ${files.filter(needsRedis).join(', ')}`);
  return files.filter((file) => !needsRedis(file));
}

async function step(title, work) {
  console.log(`\n== ${title}`);
  const started = Date.now();
  const code = await work();
  if (code !== 0) {
    console.error(`\nFAILED: ${title} (exit code ${code})`);
    process.exit(code);
  }
  console.log(`-- ${title}: ok, ${Math.round((Date.now() - started) / 1000)} s`);
}

if (!prebuilt) await ensure();
if (only.length === 0 || only.includes('--rust')) {
  const filter = words.length > 0 ? ['--', ...words] : [];
  // The fuzzing of texts runs whole here: a million cases take half a minute.
  const env = { QUOTA_FUZZ_CASES: '1000000', ...cargoEnv() };
  await step('cargo test --no-default-features', () => cargo(['test', '--no-default-features', ...filter], { env }));
  await step('cargo test', () => cargo(['test', ...filter]));
}
if (only.length === 0 || only.includes('--node')) {
  const files = chosenFiles();
  if (files.length > 0) {
    await step(`node --test (${files.length} files)`, () => run(process.execPath, ['--test', ...files]));
  } else if (only.includes('--node')) {
    console.error('npm test: no test file matches');
    process.exit(1);
  }
}
