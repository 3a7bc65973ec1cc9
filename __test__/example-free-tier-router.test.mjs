// The host module of examples/free-tier-router: small, typed, and right under a test runner's tricks.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { projectFrom } from './support/project.mjs';

const lends = ['better-sqlite3', 'vitest', '@types/better-sqlite3', '@types/node'];
const project = projectFrom('examples/free-tier-router', lends);
after(() => project.remove());

const { FORCE_COLOR, ...inherited } = process.env;
const env = { ...inherited, NO_COLOR: '1' };

function runs(args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: project.folder, encoding: 'utf8', env });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return stdout;
}

test('the module has at most 25 lines', () => {
  const lines = readFileSync(join(project.folder, 'src/quota.ts'), 'utf8').trimEnd().split('\n');
  assert.ok(lines.length <= 25, `${lines.length} lines`);
});

test('tsc --strict accepts it against the package (NodeNext)', () => {
  runs([project.bin('typescript', 'bin/tsc'), '-p', '.']);
});

test('its tests pass: fake timers, modules loaded anew, no database yet, :memory: per test, a closed one', () => {
  assert.match(runs([project.bin('vitest', 'vitest.mjs'), 'run']), /Tests\s+\d+ passed/);
});
