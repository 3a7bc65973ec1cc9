// `npm run test:matrix`: tests of the built addon on the Node versions and SQLite bindings that this package supports
// beside the running ones. Node and better-sqlite3 come as npm packages, installed into .matrix/ and kept there.
//
// npm run test:matrix                    the recorded runs and the close matrix
// npm run test:matrix -- all             every test file but the examples', which bring a better-sqlite3 of their own
// npm run test:matrix -- <word> …        test files whose name holds a word

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensure } from './ensure.mjs';
import { capture, root, run } from './proc.mjs';

const BETTER_SQLITE3 = '13';
const NODES = ['22', '24'];
const DRIVERS = ['better-sqlite3', 'node:sqlite'];
const DEFAULT_WORDS = ['replay', 'close-matrix'];
const CLOSING_LINE = /^# (tests|pass|fail|cancelled|skipped|duration_ms) /;

function nodeIn(folder) {
  return join(folder, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
}

/** The folder with one Node version and better-sqlite3 in it. */
async function install(node) {
  const folder = join(root, '.matrix', `node-${node}`);
  if (existsSync(nodeIn(folder))) return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true }));
  const packages = [`node@${node}`, `better-sqlite3@${BETTER_SQLITE3}`];
  const code = await run('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: folder });
  if (code !== 0) throw new Error(`npm could not install ${packages.join(' and ')}`);
  return folder;
}

function testFiles(words) {
  const files = readdirSync(join(root, '__test__')).filter((name) => name.endsWith('.test.mjs'));
  const chosen = words.includes('all')
    ? files.filter((name) => !name.startsWith('example-'))
    : files.filter((name) => words.some((word) => name.includes(word)));
  if (chosen.length === 0) throw new Error(`no test file matches ${words.join(', ')}`);
  return chosen.sort().map((name) => join('__test__', name));
}

/** Runs the tests in one cell; whether they passed, what was printed, and the runner's closing lines. */
function runCell(folder, driver, files) {
  const { status, stdout } = spawnSync(nodeIn(folder), ['--test', '--test-reporter=tap', ...files], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      NODE_NO_WARNINGS: '1',
      QUOTA_TEST_DRIVER: driver,
      QUOTA_TEST_BETTER_SQLITE3: join(folder, 'node_modules', 'better-sqlite3'),
    },
  });
  return {
    passed: status === 0,
    output: stdout,
    closing: stdout.split('\n').filter((line) => CLOSING_LINE.test(line)),
  };
}

await ensure();
const words = process.argv.slice(2);
const files = testFiles(words.length > 0 ? words : DEFAULT_WORDS);
for (const node of NODES) {
  const folder = await install(node);
  const version = capture(nodeIn(folder), ['--version']);
  for (const driver of DRIVERS) {
    const { passed, output, closing } = runCell(folder, driver, files);
    const binding = driver === 'better-sqlite3' ? `${driver} ${BETTER_SQLITE3}` : driver;
    const summary = closing.map((line) => line.slice(2)).join(', ');
    console.log(`${passed ? 'ok    ' : 'FAILED'} Node ${version}, ${binding}: ${summary}`);
    if (passed) continue;
    console.log(output);
    process.exitCode = 1;
  }
}
