//! The tables of an own file. A host's file has them already: there nothing is ever created, renamed or dropped.
//!
//! Column for column what the single-router side reads and writes, so that the file can move into a host later. `models`
//! and `api_keys` hold only what the engine reads of a host's tables of these names.

use super::connection::Conn;
use super::error::SqlError;
use super::share_schema;

const STATEMENTS: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS rate_limit_usage (
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       platform TEXT NOT NULL,
       model_id TEXT NOT NULL,
       key_id INTEGER NOT NULL,
       kind TEXT NOT NULL CHECK (kind IN ('request', 'tokens')),
       tokens INTEGER NOT NULL DEFAULT 0,
       created_at_ms INTEGER NOT NULL,
       created_at TEXT NOT NULL DEFAULT (datetime('now')))",
    "CREATE INDEX IF NOT EXISTS idx_rate_limit_usage_lookup
       ON rate_limit_usage (platform, model_id, key_id, kind, created_at_ms)",
    "CREATE TABLE IF NOT EXISTS rate_limit_cooldowns (
       platform TEXT NOT NULL,
       model_id TEXT NOT NULL,
       key_id INTEGER NOT NULL,
       expires_at_ms INTEGER NOT NULL,
       created_at TEXT NOT NULL DEFAULT (datetime('now')),
       source TEXT NOT NULL DEFAULT 'heuristic',
       set_at_ms INTEGER,
       PRIMARY KEY (platform, model_id, key_id))",
    "CREATE INDEX IF NOT EXISTS idx_rate_limit_cooldowns_expires ON rate_limit_cooldowns (expires_at_ms)",
    "CREATE TABLE IF NOT EXISTS models (
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       platform TEXT NOT NULL,
       model_id TEXT NOT NULL,
       rpm_limit INTEGER,
       rpd_limit INTEGER,
       tpm_limit INTEGER,
       tpd_limit INTEGER,
       monthly_token_budget TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX IF NOT EXISTS idx_models_platform_model ON models (platform, model_id)",
    "CREATE TABLE IF NOT EXISTS api_keys (
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       platform TEXT NOT NULL,
       label TEXT NOT NULL DEFAULT '',
       base_url TEXT,
       enabled INTEGER NOT NULL DEFAULT 1,
       status TEXT NOT NULL DEFAULT 'unknown',
       model_scope_json TEXT,
       provider_rpm_limit INTEGER,
       provider_rpd_limit INTEGER,
       provider_tpd_limit INTEGER)",
    "CREATE TABLE IF NOT EXISTS provider_quota_state (
       platform TEXT NOT NULL,
       key_id INTEGER NOT NULL,
       quota_pool_key TEXT NOT NULL,
       metric TEXT NOT NULL,
       limit_value INTEGER,
       remaining_value INTEGER,
       reset_at TEXT,
       reset_strategy TEXT NOT NULL DEFAULT 'unknown',
       source TEXT NOT NULL DEFAULT 'probe',
       confidence REAL NOT NULL DEFAULT 0,
       notes TEXT,
       observed_at TEXT NOT NULL DEFAULT (datetime('now')),
       updated_at TEXT NOT NULL DEFAULT (datetime('now')),
       PRIMARY KEY (platform, key_id, quota_pool_key, metric))",
    "CREATE TABLE IF NOT EXISTS provider_quota_observations (
       id TEXT PRIMARY KEY,
       platform TEXT NOT NULL,
       key_id INTEGER NOT NULL,
       provider_account_id TEXT,
       model_id TEXT,
       quota_pool_key TEXT NOT NULL,
       metric TEXT NOT NULL,
       status_code INTEGER,
       limit_value INTEGER,
       remaining_value INTEGER,
       reset_at TEXT,
       retry_after_ms INTEGER,
       reset_strategy TEXT NOT NULL DEFAULT 'unknown',
       source TEXT NOT NULL DEFAULT 'probe',
       confidence REAL NOT NULL DEFAULT 0,
       notes TEXT,
       raw_json TEXT,
       endpoint TEXT,
       observed_at TEXT NOT NULL DEFAULT (datetime('now')),
       created_at TEXT NOT NULL DEFAULT (datetime('now')))",
    "CREATE INDEX IF NOT EXISTS idx_provider_quota_observations_platform
       ON provider_quota_observations (platform, key_id, observed_at)",
];

/// Creates what is missing, the tables of quota sharing included.
pub fn ensure(conn: &Conn) -> Result<(), SqlError> {
    conn.transaction(|conn| {
        for statement in STATEMENTS {
            conn.execute_dynamic(statement, &[])?;
        }
        share_schema::ensure(conn)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_is_once() {
        let conn = Conn::open_memory().expect("open");
        ensure(&conn).expect("first");
        ensure(&conn).expect("second");
    }
}
