// The host's database module: an adapter over whichever SQLite it runs on, with the connection itself as `raw`.
import Database from 'better-sqlite3';

export interface DbAdapter {
  readonly raw: Database.Database;
  run(sql: string, ...params: unknown[]): void;
}

let adapter: DbAdapter | undefined;

export function openDb(path: string): DbAdapter {
  const raw = new Database(path);
  raw.pragma('journal_mode = WAL');
  raw.pragma('foreign_keys = ON');
  raw.exec(`
    CREATE TABLE IF NOT EXISTS provider_connections (
      id TEXT PRIMARY KEY, provider TEXT NOT NULL, auth_type TEXT, name TEXT, is_active INTEGER DEFAULT 1,
      max_concurrent INTEGER, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS api_keys (
      id TEXT PRIMARY KEY, name TEXT NOT NULL, key TEXT NOT NULL UNIQUE, allowed_quotas TEXT NOT NULL DEFAULT '[]');
  `);
  adapter = { raw, run: (sql, ...params) => void raw.prepare(sql).run(...params) };
  return adapter;
}

export function getDbInstance(): DbAdapter {
  if (!adapter) throw new Error('The database is not open yet');
  return adapter;
}
