// Publishes the packed packages of a folder: platform packages first, the root package, which depends on them, last.
// A version that is there with the same contents is skipped, so that a release cut short can be run again; one with
// other contents ends the run.
//
// node scripts/release/publish.mjs <folder of .tgz files> [--dry-run] [flags of npm publish]

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { manifestOf } from '../pack/registry.mjs';
import { capture } from '../proc.mjs';

const [folder, ...flags] = process.argv.slice(2);
const packages = readdirSync(folder)
  .filter((name) => name.endsWith('.tgz'))
  .map((name) => resolve(join(folder, name)))
  .map((file) => ({ file, ...manifestOf(file) }))
  .sort((a, b) => Number(a.name === 'quota-core') - Number(b.name === 'quota-core') || (a.name < b.name ? -1 : 1));

/** The integrity of a published version, or null when there is none. */
function published({ name, version }) {
  const asked = spawnSync('npm', ['view', `${name}@${version}`, 'dist.integrity', '--json'], { encoding: 'utf8' });
  if (asked.status === 0) return asked.stdout.trim() === '' ? null : JSON.parse(asked.stdout);
  if (/E404/.test(asked.stdout + asked.stderr)) return null;
  throw new Error(`npm view ${name}@${version} failed: ${asked.stderr}`);
}

for (const item of packages) {
  const there = published(item);
  const ours = `sha512-${createHash('sha512').update(readFileSync(item.file)).digest('base64')}`;
  if (there === ours) console.log(`${item.name}@${item.version}: published already`);
  else if (there !== null) throw new Error(`${item.name}@${item.version} is published with other contents`);
  else console.log(capture('npm', ['publish', item.file, '--access', 'public', ...flags]));
}
