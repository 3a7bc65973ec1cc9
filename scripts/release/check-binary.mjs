// What a Linux addon asks of the system it is loaded on: a glibc no newer than the floor, or, for musl, no glibc at all,
// and in both cases no library that a minimal system lacks. Reads the file with `readelf`.
//
// node scripts/release/check-binary.mjs <file.node> [--glibc 2.17]

import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { capture } from '../proc.mjs';

// The floor of Node's own Linux builds is higher; 2.17 is what the cross toolchain of the release targets.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { glibc: { type: 'string', default: '2.17' } },
});
const [file] = positionals;
const SYSTEM = /^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[\w-]*)\.so\.\d+$/;

const newer = (a, b) => {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number));
  for (let index = 0; index < Math.max(left.length, right.length); index++) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
};

const needed = [...capture('readelf', ['-dW', file]).matchAll(/\(NEEDED\).*\[(.*)\]/g)].map((match) => match[1]);
const symbols = capture('readelf', ['--dyn-syms', '-W', file]);
const glibc = [...new Set([...symbols.matchAll(/@GLIBC_([\d.]+)/g)].map((match) => match[1]))];
const highest = glibc.reduce((a, b) => (newer(b, a) ? b : a), '0');
const faults = [];

if (basename(file).includes('-musl')) {
  if (glibc.length > 0) faults.push(`symbols of glibc ${glibc.join(', ')} in a musl build`);
  for (const name of needed.filter((it) => !/^(libc\.musl-|libc\.so$|libgcc_s\.so)/.test(it)))
    faults.push(`needs ${name}`);
} else {
  if (newer(highest, values.glibc)) faults.push(`needs glibc ${highest}, the floor is ${values.glibc}`);
  for (const name of needed.filter((it) => !SYSTEM.test(it))) faults.push(`needs ${name}`);
}
if (!/\bnapi_register_module_v1\b/.test(symbols)) faults.push('does not export the Node-API entry point');
if (!/\bsqlite3_extension_init\b/.test(symbols)) faults.push('does not export the SQLite extension entry point');

console.log(`${basename(file)}: glibc ${highest === '0' ? 'none' : highest}; needs ${needed.join(', ') || 'nothing'}`);
for (const fault of faults) console.error(`  ${fault}`);
process.exitCode = faults.length > 0 ? 1 : 0;
