// The exact contents of the packages. A file more or less is a decision: it is made here.

import assert from 'node:assert/strict';
import { filesBelow } from '../files.mjs';
import { manifestOf } from './registry.mjs';
import { platforms } from './stage.mjs';

const KIB = 1024;
// The binary holds the engine, a SQLite of its own (for own files) and a Redis client with TLS. Growth past this is looked at, not waved through.
const LARGEST_BINARY = 10 * KIB * KIB;

function rootFiles() {
  return [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'binding.js',
    'index.d.mts',
    'index.d.ts',
    'index.js',
    'index.mjs',
    'package.json',
    ...filesBelow('lib', (name) => name.endsWith('.js')),
    ...filesBelow('types', (name) => name.endsWith('.d.ts')),
    // The README and the types point to them.
    ...filesBelow('docs', (name) => name.endsWith('.md')),
  ].sort();
}

/** @param packed see `stage` @param here the running platform's name: its binary must be among them */
export function checkPackages(packed, here) {
  const main = packed.get('quota-core');
  assert.deepEqual(main.files, rootFiles());
  const manifest = manifestOf(main.file);
  assert.deepEqual(
    Object.keys(manifest.optionalDependencies).sort(),
    [...platforms().values()].map(({ name }) => name).sort(),
  );
  for (const field of ['dependencies', 'peerDependencies', 'devDependencies', 'scripts']) {
    assert.equal(manifest[field], undefined, `the published package has no ${field}`);
  }
  assert.ok(packed.has(`quota-core-${here}`), `the binary of ${here} is packed`);
  for (const [name, { main: binary, name: packageName }] of platforms()) {
    const platform = packed.get(packageName);
    if (!platform) continue;
    assert.deepEqual(platform.files, ['LICENSE', 'README.md', 'package.json', binary].sort());
    if (name !== here) continue;
    const megabytes = (bytes) => `${(bytes / KIB / KIB).toFixed(1)} MiB`;
    console.log(`    ${packageName}: ${megabytes(platform.size)} packed, ${megabytes(platform.unpackedSize)} unpacked`);
    console.log(`    quota-core: ${Math.ceil(main.size / KIB)} KiB packed`);
    assert.ok(platform.unpackedSize < LARGEST_BINARY, `the binary has grown to ${megabytes(platform.unpackedSize)}`);
  }
}
