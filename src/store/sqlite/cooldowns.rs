//! Queries on `rate_limit_cooldowns`: one row per benched route. Lookups use its primary key, scans by time
//! `idx_rate_limit_cooldowns_expires`.

use super::connection::Conn;
use super::error::SqlError;
use super::statement::Param::{Null, Num, Text};
use super::statement::Row;
use crate::core::route::RouteName;

/// A bench as the table holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct CooldownRow {
    pub platform: String,
    pub model: String,
    pub key: f64,
    pub expires_at: f64,
    pub set_at: Option<f64>,
    pub source: String,
}

fn read(row: &Row<'_>) -> CooldownRow {
    CooldownRow {
        platform: row.string(0).unwrap_or_default(),
        model: row.string(1).unwrap_or_default(),
        key: row.num(2).unwrap_or(f64::NAN),
        expires_at: row.num(3).unwrap_or(f64::NAN),
        set_at: row.num(4),
        source: row.string(5).unwrap_or_default(),
    }
}

pub fn upsert(
    conn: &Conn,
    route: &RouteName<'_>,
    expires_at: f64,
    source: &str,
    set_at: f64,
) -> Result<(), SqlError> {
    // A bench without end is stored as NULL would be refused: the column takes infinity as a REAL.
    let expires = if expires_at.is_nan() {
        Null
    } else {
        Num(expires_at)
    };
    conn.execute(
        "INSERT INTO rate_limit_cooldowns (platform, model_id, key_id, expires_at_ms, source, set_at_ms) \
         VALUES (?, ?, ?, ?, ?, ?) \
         ON CONFLICT (platform, model_id, key_id) DO UPDATE SET \
           expires_at_ms = excluded.expires_at_ms, source = excluded.source, set_at_ms = excluded.set_at_ms",
        &[Text(route.platform), Text(route.model), Num(route.key), expires, Text(source), Num(set_at)],
    )
    .map(drop)
}

/// When the bench of a route ends, if it has a row.
pub fn expiry(conn: &Conn, route: &RouteName<'_>) -> Result<Option<f64>, SqlError> {
    Ok(conn
        .query_row(
            "SELECT expires_at_ms FROM rate_limit_cooldowns WHERE platform = ? AND model_id = ? AND key_id = ?",
            &[Text(route.platform), Text(route.model), Num(route.key)],
            |row| row.num(0),
        )?
        .flatten())
}

/// The whole row of a route.
pub fn get(conn: &Conn, route: &RouteName<'_>) -> Result<Option<CooldownRow>, SqlError> {
    conn.query_row(
        "SELECT platform, model_id, key_id, expires_at_ms, set_at_ms, source FROM rate_limit_cooldowns \
         WHERE platform = ? AND model_id = ? AND key_id = ?",
        &[Text(route.platform), Text(route.model), Num(route.key)],
        read,
    )
}

pub fn delete(conn: &Conn, route: &RouteName<'_>) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM rate_limit_cooldowns WHERE platform = ? AND model_id = ? AND key_id = ?",
        &[Text(route.platform), Text(route.model), Num(route.key)],
    )
}

/// As [`delete`], but only a bench that is still a guess.
pub fn delete_heuristic(conn: &Conn, route: &RouteName<'_>) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM rate_limit_cooldowns \
         WHERE platform = ? AND model_id = ? AND key_id = ? AND source = 'heuristic'",
        &[Text(route.platform), Text(route.model), Num(route.key)],
    )
}

pub fn delete_key(conn: &Conn, key: f64) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM rate_limit_cooldowns WHERE key_id = ?",
        &[Num(key)],
    )
}

pub fn delete_expired(conn: &Conn, now: f64) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM rate_limit_cooldowns WHERE expires_at_ms <= ?",
        &[Num(now)],
    )
}

/// Benches of a key that are still on, soonest first.
pub fn active_of_key(conn: &Conn, key: f64, now: f64) -> Result<Vec<CooldownRow>, SqlError> {
    conn.query(
        "SELECT platform, model_id, key_id, expires_at_ms, set_at_ms, source FROM rate_limit_cooldowns \
         WHERE key_id = ? AND expires_at_ms > ? ORDER BY expires_at_ms",
        &[Num(key), Num(now)],
        read,
    )
}

/// Benches that are a guess and still on, soonest first.
pub fn probeable(conn: &Conn, now: f64) -> Result<Vec<CooldownRow>, SqlError> {
    conn.query(
        "SELECT platform, model_id, key_id, expires_at_ms, set_at_ms, source FROM rate_limit_cooldowns \
         WHERE expires_at_ms > ? AND source = 'heuristic' ORDER BY expires_at_ms",
        &[Num(now)],
        read,
    )
}

/// When the next bench ends.
pub fn soonest_expiry(conn: &Conn, now: f64) -> Result<Option<f64>, SqlError> {
    Ok(conn
        .query_row(
            "SELECT MIN(expires_at_ms) FROM rate_limit_cooldowns WHERE expires_at_ms > ?",
            &[Num(now)],
            |row| row.num(0),
        )?
        .flatten())
}
