//! Requests in flight of several processes, as rows of `quota_core_leases` in the host's file. Owns their SQL; which leases
//! are too old is the caller's rule.
//!
//! The table is ours and small: a row per request in flight. It is created by the first instance that keeps its leases there.

use super::connection::Conn;
use super::error::SqlError;
use super::statement::Param::{Num, Text};
use crate::core::route::RouteName;

/// A lease as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRow {
    pub id: u64,
    pub platform: String,
    pub model: String,
    pub key: f64,
    pub tokens: f64,
    pub created_at: f64,
}

/// Creates the table where it is missing.
pub fn ensure(conn: &Conn) -> Result<(), SqlError> {
    conn.execute_dynamic(
        "CREATE TABLE IF NOT EXISTS quota_core_leases (
           id INTEGER PRIMARY KEY,
           platform TEXT NOT NULL,
           model_id TEXT NOT NULL,
           key_id INTEGER NOT NULL,
           tokens INTEGER NOT NULL,
           created_at_ms INTEGER NOT NULL)",
        &[],
    )
    .map(drop)
}

/// Deletes what was taken before an instant. As the first statement of a transaction it takes the file's write lock, whether
/// there is anything to delete or not.
pub fn collect(conn: &Conn, before: f64) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM quota_core_leases WHERE created_at_ms < ?",
        &[Num(before)],
    )
}

/// Takes a lease; its id, below 2^36. It is random: a counter of the file would give an id again after a rollback of the
/// host, and the same ones in another file, and whoever settles the first lease would end the second.
pub fn insert(
    conn: &Conn,
    route: &RouteName<'_>,
    tokens: f64,
    at: f64,
) -> Result<Option<u64>, SqlError> {
    let id = conn.query_row(
        "INSERT INTO quota_core_leases (id, platform, model_id, key_id, tokens, created_at_ms) \
         VALUES (1 + (random() & 34359738367), ?, ?, ?, ?, ?) RETURNING id",
        &[
            Text(route.platform),
            Text(route.model),
            Num(route.key),
            Num(tokens),
            Num(at),
        ],
        |row| row.int(0),
    )?;
    Ok(id.flatten().and_then(|id| u64::try_from(id).ok()))
}

/// Gives a lease back; whether there was one. (Primary key.)
pub fn delete(conn: &Conn, id: u64) -> Result<bool, SqlError> {
    let deleted = conn.execute(
        "DELETE FROM quota_core_leases WHERE id = ?",
        &[Num(id as f64)],
    )?;
    Ok(deleted > 0)
}

/// Every lease taken since an instant, in the order of ids. (A scan of a small table.)
pub fn since(conn: &Conn, at: f64) -> Result<Vec<LeaseRow>, SqlError> {
    conn.query(
        "SELECT id, platform, model_id, key_id, tokens, created_at_ms FROM quota_core_leases \
         WHERE created_at_ms >= ? ORDER BY id",
        &[Num(at)],
        |row| LeaseRow {
            id: row
                .int(0)
                .and_then(|id| u64::try_from(id).ok())
                .unwrap_or(0),
            platform: row.string(1).unwrap_or_default(),
            model: row.string(2).unwrap_or_default(),
            key: row.num(3).unwrap_or(0.0),
            tokens: row.num(4).unwrap_or(0.0),
            created_at: row.num(5).unwrap_or(0.0),
        },
    )
}
