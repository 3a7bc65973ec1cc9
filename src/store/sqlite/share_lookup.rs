//! What one enforcement needs to know about a key: its allocation in the first pool that has the connection. Owns that SQL.

use super::{Conn, Param, SqlError};
use crate::core::share::Policy;

/// A key's place in a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Membership {
    pub pool_id: String,
    /// Percent of the account; an equal share when all of the pool's weights are zero.
    pub weight: f64,
    pub policy: Policy,
    pub cap_value: Option<f64>,
    pub cap_unit: Option<String>,
    /// How many accounts the pool stands on (at least one).
    pub connections: f64,
}

/// The first pool (by allocation row) of the key that has the connection. Uses the allocation index on the key and the
/// member index on the pool; nothing here walks the other keys of a pool, but for one whose own weight is zero.
pub fn membership(
    conn: &Conn,
    key: &str,
    connection_id: &str,
) -> Result<Option<Membership>, SqlError> {
    let found = conn.query_row(
        "SELECT a.pool_id, a.weight, a.policy, a.cap_value, a.cap_unit, \
         (SELECT COUNT(*) FROM quota_pool_connections m WHERE m.pool_id = a.pool_id) AS members \
         FROM quota_allocations a JOIN quota_pools p ON p.id = a.pool_id \
         WHERE a.api_key_id = ?1 AND CASE \
         WHEN EXISTS (SELECT 1 FROM quota_pool_connections m WHERE m.pool_id = a.pool_id) \
         THEN EXISTS (SELECT 1 FROM quota_pool_connections m WHERE m.pool_id = a.pool_id AND m.connection_id = ?2) \
         ELSE p.connection_id = ?2 AND p.connection_id <> '' END \
         ORDER BY a.rowid LIMIT 1",
        &[Param::Text(key), Param::Text(connection_id)],
        |row| Membership {
            pool_id: row.string(0).unwrap_or_default(),
            weight: row.num(1).unwrap_or(0.0),
            policy: Policy::parse(row.text(2).unwrap_or_default()),
            cap_value: row.num(3),
            cap_unit: row.string(4),
            connections: row.num(5).unwrap_or(1.0).max(1.0),
        },
    )?;
    let Some(mut found) = found else {
        return Ok(None);
    };
    if found.weight == 0.0 {
        found.weight = equal_share(conn, &found.pool_id)?.unwrap_or(0.0);
    }
    Ok(Some(found))
}

/// The equal share of a pool whose weights are all zero; `None` when one is not. (Primary key; stops at the first that
/// is not zero.)
pub fn equal_share(conn: &Conn, pool_id: &str) -> Result<Option<f64>, SqlError> {
    let weighted = conn.query_row(
        "SELECT 1 FROM quota_allocations WHERE pool_id = ?1 AND weight <> 0 LIMIT 1",
        &[Param::Text(pool_id)],
        |_| (),
    )?;
    if weighted.is_some() {
        return Ok(None);
    }
    let count = conn.query_row(
        "SELECT COUNT(*) FROM quota_allocations WHERE pool_id = ?1",
        &[Param::Text(pool_id)],
        |row| row.num(0),
    )?;
    Ok(count
        .flatten()
        .filter(|keys| *keys > 0.0)
        .map(|keys| 100.0 / keys))
}
