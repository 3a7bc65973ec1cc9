// Writes index.mjs: ES modules need their exports by name, and the list is that of index.js.
//
//   node scripts/exports.mjs           writes the file
//   node scripts/exports.mjs --check   fails when the file is not up to date

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const target = new URL('../index.mjs', import.meta.url);
const names = Object.keys(createRequire(import.meta.url)('../index.js')).sort();

const text = `// Written by scripts/exports.mjs: the exports of index.js, by name.

import core from './index.js';

export default core;
export const {
${names.map((name) => `  ${name},\n`).join('')}} = core;
`;

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('index.mjs is not up to date: run node scripts/exports.mjs');
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
