// `npm run check`: everything CI runs but the tests. All parts run; what failed is listed at the end.
//
// npm run check -- rust js types api docs    only the named parts
// npm run check -- --fix                     format and apply the safe fixes first
// npm run check -- --update                  accept the public surface as it is now

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apiPage, errorCodesInDocs, errorCodesInSources, publicTypes, runtimeExports, surface } from './api.mjs';
import { filesBelow, read } from './files.mjs';
import { cargo, root, tool } from './proc.mjs';
import { versionFaults } from './release/version.mjs';

const args = process.argv.slice(2);
const fix = args.includes('--fix');
const failures = [];

function expect(ok, message) {
  if (ok) return;
  console.error(`  ${message}`);
  failures.push(message);
}

async function expectExit0(title, work) {
  console.log(`-- ${title}`);
  const code = await work();
  expect(code === 0, `${title} ended with ${code}`);
}

/** Compares a generated text with the kept one, or keeps it. */
function expectKept(path, now) {
  const file = join(root, path);
  if (args.includes('--update')) writeFileSync(file, now);
  const kept = existsSync(file) ? readFileSync(file, 'utf8') : '';
  if (kept === now) return;
  const [keptLines, nowLines] = [kept, now].map((text) => new Set(text.split('\n')));
  for (const line of missingFrom(keptLines, nowLines)) console.error(`  - ${line}`);
  for (const line of missingFrom(nowLines, keptLines)) console.error(`  + ${line}`);
  expect(false, `${path} is not what the types say (npm run check -- api --update accepts the change)`);
}

const missingFrom = (wanted, present) => [...wanted].filter((name) => !present.has(name)).sort();

function expectSame(leftTitle, left, rightTitle, right) {
  for (const name of missingFrom(left, right)) expect(false, `${name}: in ${leftTitle}, not in ${rightTitle}`);
  for (const name of missingFrom(right, left)) expect(false, `${name}: in ${rightTitle}, not in ${leftTitle}`);
}

const parts = {
  async rust() {
    await expectExit0('cargo fmt', () => cargo(['fmt', ...(fix ? [] : ['--check'])]));
    const lint = ['clippy', '--all-targets'];
    const strict = ['--', '-D', 'warnings'];
    await expectExit0('clippy, engine alone', () => cargo([...lint, '--no-default-features', ...strict]));
    await expectExit0('clippy, with the Node layer', () => cargo([...lint, ...strict]));
    console.log('-- layers');
    for (const path of filesBelow('src', (name) => name.endsWith('.rs'))) {
      const text = read(path);
      expect(text.startsWith('//!'), `${path}: the first line must say what the file owns (//! …)`);
      if (!path.startsWith('src/store/sqlite/') && path !== 'src/node/raw.rs') {
        expect(
          !/\bunsafe\s*(\{|fn|impl|extern)/.test(text),
          `${path}: unsafe outside src/store/sqlite and src/node/raw.rs`,
        );
      }
    }
  },

  async js() {
    await expectExit0('biome', () =>
      tool('@biomejs/biome', ['check', ...(fix ? ['--write'] : []), '--error-on-warnings', '.']),
    );
  },

  async types() {
    await expectExit0('tsc --strict', () => tool('typescript', ['-p', '__test__/types'], {}));
  },

  async api() {
    console.log('-- versions');
    for (const fault of versionFaults()) expect(false, fault);

    console.log('-- public surface');
    expectKept('__test__/api.snapshot.txt', surface());
    expectKept('docs/api.md', apiPage());
  },

  async docs() {
    console.log('-- documentation lists');
    const codes = errorCodesInSources();
    const { listed, pages } = errorCodesInDocs();
    expectSame('the sources', codes, 'docs/errors.md', listed);
    expectSame('docs/errors.md', listed, 'docs/errors/', pages);

    const types = publicTypes();
    const values = new Set([...types].filter(([, { value }]) => value).map(([name]) => name));
    expectSame('index.d.ts', values, 'index.js', new Set(runtimeExports()));
    expectSame('index.d.ts', new Set(types.keys()), 'index.d.mts', new Set(publicTypes('index.d.mts').keys()));
    for (const [name, { documentation }] of types) expect(documentation, `${name}: no doc comment in the types`);

    const explained = new Set([...read('docs/options.md').matchAll(/^\| `([a-z]\w*)` \|/gm)].map((match) => match[1]));
    expectSame('QuotaCoreOptions', new Set(types.get('QuotaCoreOptions').members), 'docs/options.md', explained);

    for (const path of [
      'README.md',
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      ...filesBelow('docs', (n) => n.endsWith('.md')),
    ]) {
      for (const [, target] of read(path).matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)) {
        expect(existsSync(join(root, path, '..', target)), `${path}: the link ${target} leads nowhere`);
      }
    }
  },
};

const chosen = args.filter((arg) => !arg.startsWith('--'));
const unknown = chosen.filter((name) => !(name in parts));
if (unknown.length > 0) {
  console.error(`npm run check: no part ${unknown.join(', ')} (parts: ${Object.keys(parts).join(', ')})`);
  process.exit(2);
}

for (const [name, part] of Object.entries(parts)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  console.log(`\n== check: ${name}`);
  await part();
}
if (failures.length > 0) {
  console.error(`\n${failures.length} checks failed:`);
  for (const failure of failures) console.error(`  ${failure}`);
  process.exit(1);
}
console.log('\nall checks passed');
