// Temporary folders that disappear with the test that asked for them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** @param {import('node:test').TestContext} t */
export function tempFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'quota-core-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
