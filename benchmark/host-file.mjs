// A host's SQLite file on disk (WAL) with a given number of usage rows, and a copy of it for the baseline: each side
// works on a file of its own, so that neither's writes grow the other's tables.

import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { SCHEMA } from '../demo/host.mjs';

const { createQuotaCore } = createRequire(import.meta.url)('..');

const DAY = 86_400_000;
// The last millisecond of a UTC day: "since midnight" and "the last 24 hours" are then the same rows.
export const NOW = Date.UTC(2027, 2, 2) - 1;

export const ROUTE = { platform: 'groq', modelId: 'llama-70b', keyId: 1 };
export const LIMITS = { rpm: 1e6, rpd: 1e8, tpm: 1e9, tpd: 1e11 };

function fill(db, rows) {
  const insert = db.prepare(
    'INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)',
  );
  db.transaction(() => {
    db.prepare("INSERT INTO api_keys (id, platform) VALUES (1, 'groq')").run();
    db.prepare("INSERT INTO models (platform, model_id) VALUES ('groq', 'llama-70b')").run();
    for (let index = 0; index < rows; index++) {
      const at = NOW - DAY + 1 + Math.floor(((index + 1) * (DAY - 1)) / (rows + 1));
      insert.run(ROUTE.platform, ROUTE.modelId, ROUTE.keyId, 'request', 0, at);
      insert.run(ROUTE.platform, ROUTE.modelId, ROUTE.keyId, 'tokens', 800, at);
    }
  })();
  db.pragma('wal_checkpoint(TRUNCATE)');
}

/** @param rows served requests a day of the one route: each is a request row and a tokens row */
export function openHostFiles(rows, options = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'quota-core-bench-'));
  const open = (name) => {
    const db = new Database(join(folder, name));
    db.pragma('journal_mode = WAL');
    db.exec(SCHEMA);
    fill(db, rows);
    return db;
  };
  const ours = open('ours.db');
  const plain = open('plain.db');
  const lastRow = ours.prepare('SELECT coalesce(max(id), 0) AS id FROM rate_limit_usage').get().id;
  const core = createQuotaCore({ database: ours, clock: () => NOW, env: {}, ...options });
  return {
    core,
    ours,
    plain,
    /** Takes back what a case recorded, so that the next one meets the same rows. */
    afterCase() {
      for (const db of [ours, plain]) {
        db.prepare('DELETE FROM rate_limit_usage WHERE id > ?').run(lastRow);
        db.prepare('DELETE FROM rate_limit_cooldowns').run();
      }
      core.resetLeases();
    },
    close() {
      core.close();
      ours.close();
      plain.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
