// `npm run memcheck`: the Rust tests of the SQLite layer under valgrind's memcheck. They take the way in that hosts take
// (entry point, guard, watch), so that what touches memory of SQLite's is seen here.
//
// npm run memcheck -- <word> …   other tests

import { cargo, cargoEnv, run } from './proc.mjs';

const words = process.argv.slice(2);
const valgrind = ['valgrind', '--tool=memcheck', '--error-exitcode=9', '--leak-check=no', '--quiet'].join(' ');
// The triple that cargo runs tests for here names the variable; a runner is a command line before the test's own.
const { arch, platform } = process;
const triple = { x64: 'X86_64', arm64: 'AARCH64' }[arch];
if (platform !== 'linux' || triple === undefined) {
  console.error('memcheck needs Linux with valgrind');
  process.exit(2);
}
if ((await run('valgrind', ['--version'])) !== 0) process.exit(2);
const env = { ...cargoEnv(), [`CARGO_TARGET_${triple}_UNKNOWN_LINUX_GNU_RUNNER`]: valgrind, PROPTEST_CASES: '16' };
const filter = words.length > 0 ? words : ['store::sqlite'];
process.exit(await cargo(['test', '--no-default-features', '--lib', '--', ...filter, '--test-threads=1'], { env }));
