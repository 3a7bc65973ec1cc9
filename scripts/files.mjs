// The project's own files, by path from its root.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from './proc.mjs';

/** All files below a folder (relative to the project) whose name passes. */
export function filesBelow(folder, passes) {
  const start = join(root, folder);
  if (!existsSync(start)) return [];
  return readdirSync(start, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && passes(entry.name))
    .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)).replaceAll('\\', '/'))
    .sort();
}

export const read = (path) => readFileSync(join(root, path), 'utf8');
