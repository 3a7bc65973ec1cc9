// Makes a clone ready to run: installs the dev dependencies when one is missing, builds the addon when it is missing or
// older than its sources. `npm run demo`, `npm test` and `npm run bench` call it, so that each works in a fresh clone.

import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, run, tool } from './proc.mjs';

const at = (...parts) => join(root, ...parts);
// Which profile the addon beside it was built with; kept with cargo's own output, not in the package.
const marker = at('target', 'addon-profile');

function dependenciesMissing() {
  const { devDependencies } = JSON.parse(readFileSync(at('package.json'), 'utf8'));
  return Object.keys(devDependencies).filter((name) => !existsSync(at('node_modules', name, 'package.json')));
}

function newest(path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return 0;
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))));
}

function addonFiles() {
  return readdirSync(root).filter((name) => /^quota-core\..+\.node$/.test(name));
}

function builtProfile() {
  return existsSync(marker) ? readFileSync(marker, 'utf8') : 'debug';
}

/** Why the addon must be built, or null when the one at hand will do. */
function reasonToBuild(profile) {
  const addons = addonFiles();
  if (addons.length === 0 || !existsSync(at('binding.js'))) return 'it is missing';
  const sources = Math.max(...['src', 'Cargo.toml', 'Cargo.lock', 'build.rs'].map((name) => newest(at(name))));
  const built = Math.max(...addons.map((name) => statSync(at(name)).mtimeMs));
  if (built < sources) return 'its sources are newer';
  if (profile === 'release' && builtProfile() !== 'release') return 'only a debug build is here';
  return null;
}

/** Builds the addon and its generated loader; `flags` are those of `napi build` (a target, a cross compiler). */
export async function build(profile, flags = []) {
  const release = profile === 'release' ? ['--release'] : [];
  const generated = ['--js', 'binding.js', '--dts', 'binding.d.ts'];
  rmSync(marker, { force: true });
  const code = await tool('@napi-rs/cli', ['build', '--platform', ...release, ...generated, ...flags]);
  if (code !== 0) throw new Error(`napi build ended with ${code}`);
  writeFileSync(marker, profile);
}

/**
 * @param profile 'release' builds again when only a debug build is at hand (figures from one mean nothing); 'any' takes
 * what is there.
 */
export async function ensure(profile = 'any') {
  const missing = dependenciesMissing();
  if (missing.length > 0) {
    console.log(`Installing the dev dependencies (${missing.length} missing) …`);
    const code = await run('npm', ['ci', '--no-fund', '--no-audit', '--loglevel=error']);
    if (code !== 0) throw new Error(`npm ci ended with ${code}`);
  }
  const reason = reasonToBuild(profile);
  if (reason) {
    const chosen = profile === 'any' ? 'debug' : profile;
    console.log(`Building the addon (${chosen}): ${reason} …`);
    await build(chosen);
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [arg = 'any', ...flags] = process.argv.slice(2);
  if (arg.startsWith('build:')) await build(arg.slice('build:'.length), flags);
  else await ensure(arg);
}
