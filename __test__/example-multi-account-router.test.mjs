// The host modules of examples/multi-account-router: small, typed, and right on a database behind an adapter.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { projectFrom } from './support/project.mjs';

const lends = ['better-sqlite3', 'tsx', '@types/better-sqlite3', '@types/node'];
const project = projectFrom('examples/multi-account-router', lends);
after(() => project.remove());

/** The host's own modules; the others are the swap. */
const HOST = ['src/lib/db/core.ts', 'src/lib/settings.ts', 'src/lib/providerUsage.ts'].map((path) => join(path));

function runs(args) {
  // A test that starts tests: without this variable the inner runner believes it is one file of the outer one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: project.folder, encoding: 'utf8', env });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return stdout;
}

test('each module has at most 25 lines', () => {
  const modules = readdirSync(join(project.folder, 'src'), { recursive: true })
    .map((path) => join('src', path))
    .filter((path) => path.endsWith('.ts') && !HOST.includes(path));
  assert.ok(modules.length >= 19, `${modules.length} modules`);
  for (const path of modules) {
    const lines = readFileSync(join(project.folder, path), 'utf8').trimEnd().split('\n');
    assert.ok(lines.length <= 25, `${path}: ${lines.length} lines`);
  }
});

test('tsc --strict accepts them against the package (NodeNext)', () => {
  runs([project.bin('typescript', 'bin/tsc'), '-p', '.']);
});

test('their tests pass under node --test with tsx', () => {
  assert.match(runs(['--import', 'tsx', '--test', '--test-reporter=tap', 'test/router.test.ts']), /# fail 0/);
});
