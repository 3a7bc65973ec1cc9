// The Node versions to try a consumer on: the running one, and those that scripts/node-matrix.mjs has installed.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../proc.mjs';

const MATRIX = join(root, '.matrix');

function betterSqlite3In(folder) {
  const path = join(folder, 'node_modules', 'better-sqlite3');
  if (!existsSync(path)) return null;
  return { folder: path, version: JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')).version };
}

/** @returns {{ major: number, path: string, betterSqlite3: { folder: string, version: string } | null }[]} */
export function nodes() {
  const found = [
    {
      major: Number(process.versions.node.split('.')[0]),
      path: process.execPath,
      betterSqlite3: betterSqlite3In(root),
    },
  ];
  for (const name of existsSync(MATRIX) ? readdirSync(MATRIX).sort() : []) {
    const folder = join(MATRIX, name);
    const path = join(folder, 'node_modules', 'node', 'bin', 'node');
    const major = Number(/\d+/.exec(name)?.[0]);
    if (existsSync(path) && !found.some((node) => node.major === major)) {
      found.push({ major, path, betterSqlite3: betterSqlite3In(folder) });
    }
  }
  return found;
}
