// Runs the project's commands: one place that knows how to start a tool on each platform and what its exit code means.

import { spawn, spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

const windows = process.platform === 'win32';

// npm and npx are .cmd files on Windows, which only a shell can start.
export function start(command, args, options) {
  const shell = windows && /^(npm|npx)$/.test(command);
  return spawn(command, args, { cwd: root, stdio: 'inherit', shell, ...options });
}

/** Runs a command with the terminal attached; resolves with its exit code (1 when a signal ended it). */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = start(command, args, options);
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

/** The path of a program that a dev dependency of the project brings. */
export function bin(packageName, name = packageName) {
  const require = createRequire(join(root, 'package.json'));
  const manifest = join(root, 'node_modules', packageName, 'package.json');
  const { bin: entry } = require(manifest);
  return join(dirname(manifest), typeof entry === 'string' ? entry : (entry[name] ?? Object.values(entry)[0]));
}

/** Runs a dev dependency's program with this Node. */
export const tool = (packageName, args, options) => run(process.execPath, [bin(packageName), ...args], options);

/** What a command prints, trimmed; throws when it fails. */
export function capture(command, args, options = {}) {
  const done = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    shell: windows && /^(npm|npx)$/.test(command),
    maxBuffer: 64 * 1024 * 1024,
    ...options,
  });
  if (done.error) throw done.error;
  if (done.status !== 0) {
    throw new Error(
      `${command} ${args.join(' ')} ended with ${done.status ?? done.signal}\n${done.stdout}${done.stderr}`,
    );
  }
  return done.stdout.trim();
}

let triple;
/**
 * The environment for cargo. `napi build` always names its target, so cargo's own commands name it too: the same
 * dependencies are then compiled once, not once for each of the two directories.
 */
export function cargoEnv() {
  triple ??= /^host: (.*)$/m.exec(capture('rustc', ['-vV']))[1];
  return { ...process.env, CARGO_BUILD_TARGET: process.env.CARGO_BUILD_TARGET ?? triple };
}

export const cargo = (args, options = {}) => run('cargo', args, { env: cargoEnv(), ...options });
