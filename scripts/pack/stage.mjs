// Makes the packages of a release in a folder of their own: the tree's package.json never names platform packages, a
// released one does. The release workflow and `npm run pack:check` both go through here.
//
// node scripts/pack/stage.mjs --binaries <folder with the built .node files> --out <folder for the .tgz files>

import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { capture, root } from '../proc.mjs';

const json = (path) => JSON.parse(readFileSync(path, 'utf8'));
const writeJson = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

/** The platform packages of the tree: folder name -> manifest. */
export function platforms() {
  const folders = readdirSync(join(root, 'npm')).sort();
  return new Map(folders.map((name) => [name, json(join(root, 'npm', name, 'package.json'))]));
}

function pack(folder, out) {
  const [{ filename, files, size, unpackedSize }] = JSON.parse(
    capture('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', out], { cwd: folder }),
  );
  return { file: join(out, filename), files: files.map(({ path }) => path).sort(), size, unpackedSize };
}

/** The root package as it is published: what the tree packs, plus the platform packages as optional dependencies. */
function stageRoot(work, out) {
  const tree = pack(root, out);
  const folder = join(work, 'quota-core');
  mkdirSync(folder, { recursive: true });
  capture('tar', ['-xzf', tree.file, '-C', work]);
  cpSync(join(work, 'package'), folder, { recursive: true });
  rmSync(join(work, 'package'), { recursive: true });
  rmSync(tree.file);
  const manifest = json(join(folder, 'package.json'));
  const { scripts, devDependencies, ...published } = manifest;
  published.optionalDependencies = Object.fromEntries(
    [...platforms().values()].map(({ name, version }) => [name, version]),
  );
  writeJson(join(folder, 'package.json'), published);
  return pack(folder, out);
}

/** One platform's package with its binary. */
function stagePlatform(name, manifest, binary, work, out) {
  const folder = join(work, name);
  cpSync(join(root, 'npm', name), folder, { recursive: true });
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  copyFileSync(binary, join(folder, manifest.main));
  return pack(folder, out);
}

/**
 * Packs the root package and every platform whose binary is in `binaries` (all of them when `complete`).
 * @returns package name -> { file, files, size, unpackedSize }
 */
export function stage({ binaries, out, complete = false }) {
  const work = join(out, 'stage');
  rmSync(out, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const { version } = json(join(root, 'package.json'));
  const packed = new Map([['quota-core', stageRoot(work, out)]]);
  for (const [name, manifest] of platforms()) {
    if (manifest.version !== version) throw new Error(`npm/${name} has version ${manifest.version}, not ${version}`);
    const binary = join(binaries, manifest.main);
    if (existsSync(binary)) packed.set(manifest.name, stagePlatform(name, manifest, binary, work, out));
    else if (complete) throw new Error(`no binary for ${name}: ${manifest.main}`);
  }
  rmSync(work, { recursive: true });
  return packed;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({ options: { binaries: { type: 'string' }, out: { type: 'string' } } });
  const packed = stage({ binaries: resolve(values.binaries), out: resolve(values.out), complete: true });
  for (const [name, { file, size }] of packed) console.log(`${name}: ${file}, ${Math.ceil(size / 1024)} KiB`);
}
