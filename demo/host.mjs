// The host's side of the demo: its SQLite file with the tables that a router has, and its catalog of models and keys.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { MODELS } from './providers.mjs';

export const SCHEMA = `
  CREATE TABLE models (
    id INTEGER PRIMARY KEY, platform TEXT NOT NULL, model_id TEXT NOT NULL, rpm_limit INTEGER, rpd_limit INTEGER,
    tpm_limit INTEGER, tpd_limit INTEGER, monthly_token_budget TEXT NOT NULL DEFAULT '', UNIQUE (platform, model_id));
  CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY, platform TEXT NOT NULL, label TEXT NOT NULL DEFAULT '', base_url TEXT,
    enabled INTEGER NOT NULL DEFAULT 1, status TEXT NOT NULL DEFAULT 'healthy', model_scope_json TEXT);
  CREATE TABLE rate_limit_usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT, platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('request', 'tokens')), tokens INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL);
  CREATE INDEX idx_rate_limit_usage_lookup ON rate_limit_usage (platform, model_id, key_id, kind, created_at_ms);
  CREATE TABLE rate_limit_cooldowns (
    platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL,
    source TEXT NOT NULL DEFAULT 'heuristic', set_at_ms INTEGER, PRIMARY KEY (platform, model_id, key_id));
  CREATE TABLE provider_quota_state (
    platform TEXT NOT NULL, key_id INTEGER NOT NULL, quota_pool_key TEXT NOT NULL, metric TEXT NOT NULL,
    limit_value INTEGER, remaining_value INTEGER, reset_at TEXT, reset_strategy TEXT NOT NULL DEFAULT 'unknown',
    source TEXT NOT NULL DEFAULT 'probe', confidence REAL NOT NULL DEFAULT 0, notes TEXT,
    observed_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')),
    PRIMARY KEY (platform, key_id, quota_pool_key, metric));
  CREATE TABLE provider_quota_observations (
    id TEXT PRIMARY KEY, platform TEXT NOT NULL, key_id INTEGER NOT NULL, provider_account_id TEXT, model_id TEXT,
    quota_pool_key TEXT NOT NULL, metric TEXT NOT NULL, status_code INTEGER, limit_value INTEGER,
    remaining_value INTEGER, reset_at TEXT, retry_after_ms INTEGER, reset_strategy TEXT NOT NULL DEFAULT 'unknown',
    source TEXT NOT NULL DEFAULT 'probe', confidence REAL NOT NULL DEFAULT 0, notes TEXT, raw_json TEXT,
    endpoint TEXT, observed_at TEXT NOT NULL DEFAULT (datetime('now')),
    created_at TEXT NOT NULL DEFAULT (datetime('now')));
`;

/** A new database file of the host, in a folder that `remove()` deletes. */
export function openHost() {
  const folder = mkdtempSync(join(tmpdir(), 'quota-core-demo-'));
  const db = new Database(join(folder, 'host.db'));
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = NORMAL');
  db.exec(SCHEMA);
  const addModel = db.prepare(
    'INSERT INTO models (platform, model_id, rpm_limit, rpd_limit, tpm_limit, tpd_limit) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const addKey = db.prepare('INSERT OR IGNORE INTO api_keys (id, platform) VALUES (?, ?)');
  for (const { platform, modelId, published: p, keys } of MODELS) {
    addModel.run(platform, modelId, p.rpm ?? null, p.rpd ?? null, p.tpm ?? null, p.tpd ?? null);
    for (const keyId of keys) addKey.run(keyId, platform);
  }
  const readModels = db.prepare(
    'SELECT id, platform, model_id, rpm_limit, rpd_limit, tpm_limit, tpd_limit FROM models',
  );
  return {
    db,
    /** The router's catalog as the database has it now: learned limits included. */
    limits() {
      const out = new Map();
      for (const row of readModels.all()) {
        const limits = { rpm: row.rpm_limit, rpd: row.rpd_limit, tpm: row.tpm_limit, tpd: row.tpd_limit };
        out.set(`${row.platform}/${row.model_id}`, { modelDbId: row.id, limits });
      }
      return out;
    },
    remove() {
      db.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
