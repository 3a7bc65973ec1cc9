// The host's database module: one handle, opened at start, and no handle before that.
import Database from 'better-sqlite3';

let db: Database.Database | undefined;

export function initDb(path: string): Database.Database {
  db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.exec(`
    CREATE TABLE IF NOT EXISTS models (
      id INTEGER PRIMARY KEY, platform TEXT NOT NULL, model_id TEXT NOT NULL, rpm_limit INTEGER, rpd_limit INTEGER,
      tpm_limit INTEGER, tpd_limit INTEGER, monthly_token_budget TEXT NOT NULL DEFAULT '');
    CREATE TABLE IF NOT EXISTS api_keys (
      id INTEGER PRIMARY KEY, platform TEXT NOT NULL, label TEXT NOT NULL DEFAULT '', base_url TEXT,
      enabled INTEGER NOT NULL DEFAULT 1, status TEXT NOT NULL DEFAULT 'unknown', model_scope_json TEXT);
    CREATE TABLE IF NOT EXISTS rate_limit_usage (
      id INTEGER PRIMARY KEY AUTOINCREMENT, platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL,
      kind TEXT NOT NULL, tokens INTEGER NOT NULL DEFAULT 0, created_at_ms INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS idx_rate_limit_usage_lookup
      ON rate_limit_usage (platform, model_id, key_id, kind, created_at_ms);
    CREATE TABLE IF NOT EXISTS rate_limit_cooldowns (
      platform TEXT NOT NULL, model_id TEXT NOT NULL, key_id INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL,
      source TEXT NOT NULL DEFAULT 'heuristic', set_at_ms INTEGER, PRIMARY KEY (platform, model_id, key_id));
  `);
  return db;
}

export function getDb(): Database.Database {
  if (!db) throw new Error('The database is not open yet');
  return db;
}
