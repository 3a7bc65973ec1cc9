// One version everywhere: the crate, the package, the platform packages, the changelog, and the tag when one is given.
//
// node scripts/release/version.mjs [v1.2.3]

import { pathToFileURL } from 'node:url';
import { read } from '../files.mjs';
import { platforms } from '../pack/stage.mjs';

/** What disagrees with package.json's version: a list of sentences. */
export function versionFaults(tag) {
  const { version } = JSON.parse(read('package.json'));
  const faults = [];
  const same = (where, found) => {
    if (found !== version) faults.push(`${where} says ${found}, package.json ${version}`);
  };
  same('Cargo.toml', /^version = "(.*)"$/m.exec(read('Cargo.toml'))?.[1]);
  for (const [name, manifest] of platforms()) same(`npm/${name}`, manifest.version);
  const lock = JSON.parse(read('package-lock.json'));
  same('package-lock.json', lock.version);
  if (!read('CHANGELOG.md').includes(`\n## ${version}\n`)) faults.push(`CHANGELOG.md has no section ${version}`);
  if (tag !== undefined) same('the tag', tag.replace(/^v/, ''));
  return faults;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const faults = versionFaults(process.argv[2]);
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length > 0 ? 1 : 0;
}
