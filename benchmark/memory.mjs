// `npm run bench:memory`: what the index takes for a day of a million rows over ten thousand routes. The goal is 100 MB.
//
// npm run bench:memory -- <rows> <routes>

import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { SCHEMA } from '../demo/host.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('..');

const [rows = 1_000_000, routes = 10_000] = process.argv.slice(2).map(Number);
const NOW = Date.UTC(2027, 2, 2) - 1;
const DAY = 86_400_000;
const LIMITS = { rpm: 10, rpd: 1e6, tpm: 1e6, tpd: 1e9 };
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

const folder = mkdtempSync(join(tmpdir(), 'quota-core-memory-'));
const db = new Database(join(folder, 'host.db'));
try {
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = OFF');
  db.exec(SCHEMA);
  const insert = db.prepare(
    "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES ('groq', ?, ?, ?, ?, ?)",
  );
  db.transaction(() => {
    for (let row = 0; row < rows; row++) {
      const route = (row >> 1) % routes;
      const kind = row % 2 === 0 ? 'request' : 'tokens';
      insert.run(
        `m${route % 100}`,
        1 + Math.floor(route / 100),
        kind,
        row % 2 === 0 ? 0 : 800,
        NOW - DAY + 1 + Math.floor(((DAY - 2) * row) / rows),
      );
    }
  })();
  db.pragma('wal_checkpoint(TRUNCATE)');
  const core = createQuotaCore({ database: db, clock: () => NOW, env: {} });
  const askAll = () => {
    for (let route = 0; route < routes; route++) {
      core.canMakeRequest('groq', `m${route % 100}`, 1 + Math.floor(route / 100), LIMITS);
      core.canUseTokens('groq', `m${route % 100}`, 1 + Math.floor(route / 100), 100, LIMITS);
    }
  };
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  let started = performance.now();
  askAll();
  const first = performance.now() - started;
  started = performance.now();
  askAll();
  const again = performance.now() - started;
  globalThis.gc?.();
  const own = Number(/^quota_core_index_bytes (.+)$/m.exec(core.metrics())[1]);
  console.log(`${rows} rows of a day over ${routes} routes`);
  console.log(`process       ${megabytes(process.memoryUsage.rss() - before)} more than before`);
  console.log(`index itself  ${megabytes(own)} by its own estimate`);
  console.log(`both gates of every route: ${first.toFixed(0)} ms when read, ${again.toFixed(0)} ms from memory`);
  core.close();
} finally {
  db.close();
  rmSync(folder, { recursive: true, force: true });
}
