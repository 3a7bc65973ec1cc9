// What a user reads when the addon is not there, or is there and does not load.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectFrom } from './support/project.mjs';

const require = createRequire(import.meta.url);
const { bindingError, platformName, PLATFORMS } = require('../lib/binding-error.js');
const { napi } = require('../package.json');

const TRIPLES = {
  'x86_64-unknown-linux-gnu': 'linux-x64-gnu',
  'aarch64-unknown-linux-gnu': 'linux-arm64-gnu',
  'x86_64-unknown-linux-musl': 'linux-x64-musl',
  'aarch64-unknown-linux-musl': 'linux-arm64-musl',
  'x86_64-apple-darwin': 'darwin-x64',
  'aarch64-apple-darwin': 'darwin-arm64',
  'x86_64-pc-windows-msvc': 'win32-x64-msvc',
  'aarch64-pc-windows-msvc': 'win32-arm64-msvc',
};

test('the list of platforms is the list of build targets', () => {
  assert.deepEqual(
    napi.targets.map((target) => TRIPLES[target]),
    PLATFORMS,
  );
});

test('this platform has a name of the list', () => {
  assert.ok(PLATFORMS.includes(platformName()), platformName());
  const glibc = { getReport: () => ({ header: { glibcVersionRuntime: '2.36' } }) };
  assert.equal(platformName({ platform: 'linux', arch: 'arm64', report: glibc }), 'linux-arm64-gnu');
  assert.equal(
    platformName({ platform: 'linux', arch: 'x64', report: { getReport: () => ({ header: {} }) } }),
    'linux-x64-musl',
  );
  assert.equal(platformName({ platform: 'darwin', arch: 'arm64' }), 'darwin-arm64');
  assert.equal(platformName({ platform: 'win32', arch: 'x64' }), 'win32-x64-msvc');
});

test('a missing platform package is named, with the command that installs it', () => {
  const cause = new Error('Cannot find native binding');
  const error = bindingError(cause, 'linux-x64-musl');
  assert.equal(error.code, 'ERR_QUOTA_NATIVE_MISSING');
  assert.match(error.message, /quota-core-linux-x64-musl is not installed/);
  assert.match(error.message, /npm install quota-core --include=optional --force/);
  assert.equal(error.cause, cause);
});

test('a platform without a package is told to build', () => {
  const error = bindingError(new Error('none'), 'freebsd-x64');
  assert.equal(error.code, 'ERR_QUOTA_NATIVE_MISSING');
  assert.match(error.message, /no prebuilt addon for freebsd-x64.*npm run build/);
});

test('an addon that is there and does not load gives the reason of the loader', () => {
  const reason = Object.assign(new Error("libc.so.6: version `GLIBC_2.99' not found"), { code: 'ERR_DLOPEN_FAILED' });
  const error = bindingError(new Error('Cannot find native binding', { cause: reason }), 'linux-x64-gnu');
  assert.equal(error.code, 'ERR_QUOTA_NATIVE_LOAD');
  assert.match(error.message, /GLIBC_2\.99/);
});

test('loading the package without an addon ends in that error', () => {
  const { folder, remove } = projectFrom('__test__/consumers/cjs');
  for (const name of readdirSync(join(folder, 'node_modules/quota-core'))) {
    if (name.endsWith('.node')) rmSync(join(folder, 'node_modules/quota-core', name));
  }
  const { stderr } = spawnSync(process.execPath, ['main.cjs'], { cwd: folder, encoding: 'utf8' });
  remove();
  assert.match(stderr, /ERR_QUOTA_NATIVE_MISSING/);
  assert.match(stderr, new RegExp(`quota-core-${platformName()} is not installed`));
});
