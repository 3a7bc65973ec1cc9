// A project in a temporary folder with this package installed in it as npm would: a folder of its own, not a link, so
// that bundlers and test runners treat it as a dependency.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** @param from a folder of the repository whose contents the project starts with @param lends dev dependencies to link */
export function projectFrom(from, lends = []) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'quota-core-project-')));
  cpSync(join(root, from), folder, { recursive: true, filter: (path) => !path.includes('node_modules') });
  const target = join(folder, 'node_modules', 'quota-core');
  mkdirSync(target, { recursive: true });
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const addon = readdirSync(root).filter((name) => name.endsWith('.node'));
  for (const name of ['package.json', ...files, ...addon]) {
    cpSync(join(root, name), join(target, name), { recursive: true });
  }
  for (const name of lends) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), link, 'junction');
  }
  return {
    folder,
    bin: (name, file) => join(root, 'node_modules', name, file),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
