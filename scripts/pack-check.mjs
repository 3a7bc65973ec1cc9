// `npm run pack:check`: packs the packages as a release would, installs them from a stub registry into empty projects,
// and runs each kind of consumer on each Node at hand. Needs no network once the dev dependencies are there.

import assert from 'node:assert/strict';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { ensure } from './ensure.mjs';
import { checkPackages } from './pack/contents.mjs';
import { nodes } from './pack/nodes.mjs';
import { startRegistry } from './pack/registry.mjs';
import { platforms, stage } from './pack/stage.mjs';
import { bin, root, start } from './proc.mjs';

const { platformName } = createRequire(import.meta.url)('../lib/binding-error.js');
const here = platformName();
const MAJORS = [20, 22, 24];
const work = mkdtempSync(join(tmpdir(), 'quota-core-pack-'));
let checks = 0;

async function check(title, body) {
  const started = Date.now();
  try {
    await body();
  } catch (error) {
    console.error(`FAILED: ${title}`);
    throw error;
  }
  checks++;
  console.log(`ok  ${title} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
}

/** Runs a program to its end without blocking this process, which serves the registry; returns what it printed. */
function output(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = start(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    child.stdout.on('data', (chunk) => (text += chunk));
    child.stderr.on('data', (chunk) => (text += chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(text);
      else reject(new Error(`${command} ${args.join(' ')} ended with ${code ?? signal}\n${text}`));
    });
  });
}

let registry;
// A cache of its own: the machine's may hold an older build of the same version.
const npm = (cwd, ...args) =>
  output('npm', [...args, '--registry', registry.url, '--cache', join(work, 'cache'), '--no-audit', '--no-fund'], {
    cwd,
  });

function project(name, files = {}) {
  const folder = join(work, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, ...files.manifest }));
  if (files.from) cpSync(join(root, '__test__/consumers', files.from), folder, { recursive: true });
  return folder;
}

/** Lends a project a package that the stub registry does not have. */
function lend(folder, name, from = join(root, 'node_modules', name)) {
  const target = join(folder, 'node_modules', name);
  mkdirSync(join(target, '..'), { recursive: true });
  symlinkSync(from, target, 'junction');
}

const installed = (folder) =>
  readdirSync(join(folder, 'node_modules'))
    .filter((name) => name.startsWith('quota-core'))
    .sort();

const runs = async (node, folder, file) => {
  assert.match(await output(node, [file], { cwd: folder }), /consumer ok/);
};

/** The consumers that run a script: name, script, what the project borrows, and on which Node it makes sense. */
const SCRIPTS = [
  { from: 'cjs', file: 'main.cjs' },
  { from: 'esm', file: 'main.mjs' },
  { from: 'worker', file: 'main.mjs' },
  { from: 'own-file', file: 'main.mjs' },
  { from: 'better-sqlite3', file: 'main.mjs', when: ({ betterSqlite3 }) => betterSqlite3, lends: true },
  { from: 'node-sqlite', file: 'main.mjs', when: ({ major }) => major >= 22 },
];

const TYPESCRIPT = [
  { name: 'node16, CommonJS', options: { module: 'node16' }, type: 'commonjs', runs: true },
  { name: 'NodeNext, ESM', options: { module: 'nodenext' }, type: 'module', runs: true },
  { name: 'bundler resolution', options: { module: 'esnext', moduleResolution: 'bundler' }, type: 'module' },
];

/** This machine's binary, and a placeholder for each other platform's: npm only has to choose between them. */
function binaries() {
  const folder = join(work, 'binaries');
  mkdirSync(folder);
  for (const [name, { main }] of platforms()) {
    if (name === here) copyFileSync(join(root, main), join(folder, main));
    else writeFileSync(join(folder, main), 'a placeholder\n');
  }
  return folder;
}

async function main() {
  await ensure('release');
  const packed = stage({ binaries: binaries(), out: join(work, 'packages') });
  await check('each package holds the files it should, and no others', () => checkPackages(packed, here));
  registry = await startRegistry([...packed.values()].map(({ file }) => file));

  const tarball = packed.get('quota-core').file;
  await check('publint', () => output(process.execPath, [bin('publint'), tarball, '--strict']));
  await check('attw', () => output(process.execPath, [bin('@arethetypeswrong/cli', 'attw'), tarball]));

  const found = nodes();
  const missing = MAJORS.filter((major) => !found.some((node) => node.major === major));
  if (missing.length > 0) {
    const message = `no Node ${missing.join(', ')} at hand: npm run test:matrix installs them`;
    // CI must not pass on less than what the documentation claims.
    assert.ok(!process.env.CI, message);
    console.log(`    ${message}`);
  }
  for (const node of found) {
    for (const { from, file, when, lends } of SCRIPTS) {
      if (when && !when(node)) continue;
      const title = lends ? `${from} ${node.betterSqlite3.version}` : from;
      await check(`Node ${node.major}: ${title}`, async () => {
        const folder = project(`${from}-${node.major}`, { from });
        await npm(folder, 'install', 'quota-core');
        assert.deepEqual(installed(folder), ['quota-core', `quota-core-${here}`]);
        if (lends) lend(folder, 'better-sqlite3', node.betterSqlite3.folder);
        await runs(node.path, folder, file);
      });
    }
    await check(`Node ${node.major}: vitest with fake timers`, async () => {
      const folder = project(`vitest-${node.major}`, { from: 'vitest', manifest: { type: 'module' } });
      await npm(folder, 'install', 'quota-core');
      lend(folder, 'vitest');
      await output(node.path, [bin('vitest'), 'run'], { cwd: folder });
    });
  }

  for (const { name, options, type, runs: emits } of TYPESCRIPT) {
    await check(`TypeScript: ${name}`, async () => {
      const folder = project(`ts-${name.replace(/\W+/g, '-')}`, { from: 'ts', manifest: { type } });
      const compilerOptions = {
        ...options,
        target: 'es2022',
        strict: true,
        skipLibCheck: false,
        types: [],
        lib: ['es2022'],
      };
      writeFileSync(join(folder, 'console.d.ts'), 'declare const console: { log(text: string): void };\n');
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
      await npm(folder, 'install', 'quota-core');
      await output(process.execPath, [bin('typescript', 'tsc'), '-p', folder], { cwd: folder });
      if (emits) await runs(process.execPath, folder, 'main.js');
    });
  }

  for (const name of readdirSync(join(root, 'examples')).sort()) {
    await check(`examples/${name}: builds and passes its tests`, () => example(name));
  }
  await lockfiles();
  await missingPlatform();
  await publishing([...packed.keys()], dirname(tarball));
  await selection();
  console.log(`\n${checks} passed, 0 failed`);
}

/** An example as a user has it, but that its dependencies other than ours are lent by this project. */
async function example(name) {
  const folder = project(name);
  await npm(folder, 'install', 'quota-core');
  cpSync(join(root, 'examples', name), folder, { recursive: true });
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const other of Object.keys({ ...dependencies, ...devDependencies })) {
    if (other !== 'quota-core') lend(folder, other);
  }
  const env = { ...process.env, PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}` };
  await output('npm', ['run', 'build'], { cwd: folder, env });
  await output('npm', ['test'], { cwd: folder, env });
}

async function lockfiles() {
  await check('npm ci from a lockfile', async () => {
    const folder = project('ci', { from: 'cjs' });
    await npm(folder, 'install', 'quota-core');
    const lock = createRequire(import.meta.url)(join(folder, 'package-lock.json'));
    const listed = Object.keys(lock.packages).filter((path) => path.startsWith('node_modules/quota-core-'));
    assert.equal(listed.length, platforms().size, 'the lockfile serves every platform');
    await npm(folder, 'ci');
    assert.deepEqual(installed(folder), ['quota-core', `quota-core-${here}`]);
    await runs(process.execPath, folder, 'main.cjs');
  });
}

async function missingPlatform() {
  await check('--omit=optional: the error names the package, and its command repairs the project', async () => {
    const folder = project('omit', { from: 'cjs' });
    await npm(folder, 'install', 'quota-core', '--omit=optional');
    assert.deepEqual(installed(folder), ['quota-core']);
    const failed = await runs(process.execPath, folder, 'main.cjs').then(
      () => '',
      (error) => error.message,
    );
    assert.match(failed, /ERR_QUOTA_NATIVE_MISSING/);
    assert.match(failed, new RegExp(`quota-core-${here} is not installed`));
    const [, command] = /Reinstall with: npm (.*)/.exec(failed);
    await npm(folder, ...command.trim().split(' '));
    await runs(process.execPath, folder, 'main.cjs');
  });
}

/** The release's last step, against a registry of its own: run twice, it publishes once, and ours last. */
async function publishing(names, folder) {
  await check('publishing: platform packages first, and a second run adds nothing', async () => {
    const target = await startRegistry([]);
    const userconfig = join(work, 'publish.npmrc');
    writeFileSync(userconfig, `registry=${target.url}\n${target.url.slice('http:'.length)}:_authToken=stub\n`);
    const env = { ...process.env, npm_config_userconfig: userconfig, npm_config_cache: join(work, 'publish-cache') };
    const publish = () => output(process.execPath, [join(root, 'scripts/release/publish.mjs'), folder], { env });
    try {
      await publish();
      assert.deepEqual([...target.published].sort(), [...names].sort());
      assert.equal(target.published.at(-1), 'quota-core');
      assert.equal((await publish()).match(/published already/g).length, names.length);
      assert.equal(target.published.length, names.length);
    } finally {
      await target.close();
    }
  });
}

/** npm itself chooses by the os, cpu and libc of the platform packages; their metadata must be right. */
async function selection() {
  for (const [name, { os, cpu, libc = [] }] of platforms()) {
    await check(`npm on ${name} would install quota-core-${name} alone`, async () => {
      const folder = project(`select-${name}`);
      const as = [`--os=${os[0]}`, `--cpu=${cpu[0]}`, ...libc.map((it) => `--libc=${it}`)];
      await npm(folder, 'install', 'quota-core', ...as);
      assert.deepEqual(installed(folder), ['quota-core', `quota-core-${name}`]);
    });
  }
}

try {
  await main();
} finally {
  await registry?.close();
  rmSync(work, { recursive: true, force: true });
}
