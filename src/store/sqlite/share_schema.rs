//! The tables of quota sharing: creates what is missing and touches nothing that is there.

use std::collections::HashSet;

use super::{Conn, Param, SqlError};

/// Name, and the statement that creates it. Texts equal the host's migrated schema, so that either side may create it.
const TABLES: [(&str, &str); 7] = [
    (
        "quota_pools",
        "CREATE TABLE IF NOT EXISTS quota_pools (id TEXT PRIMARY KEY, connection_id TEXT NOT NULL, \
         name TEXT NOT NULL, created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, group_id TEXT)",
    ),
    (
        "quota_allocations",
        "CREATE TABLE IF NOT EXISTS quota_allocations (pool_id TEXT NOT NULL, api_key_id TEXT NOT NULL, \
         weight REAL NOT NULL, cap_value REAL, cap_unit TEXT, policy TEXT NOT NULL DEFAULT 'hard', \
         PRIMARY KEY (pool_id, api_key_id), \
         FOREIGN KEY (pool_id) REFERENCES quota_pools(id) ON DELETE CASCADE, \
         CHECK (weight >= 0 AND weight <= 100), CHECK (cap_unit IN ('percent','requests','tokens','usd')), \
         CHECK (policy IN ('hard','soft','burst')))",
    ),
    (
        "quota_pool_connections",
        "CREATE TABLE IF NOT EXISTS quota_pool_connections (pool_id TEXT NOT NULL, connection_id TEXT NOT NULL, \
         created_at TEXT NOT NULL DEFAULT (datetime('now')), PRIMARY KEY (pool_id, connection_id))",
    ),
    (
        "quota_groups",
        "CREATE TABLE IF NOT EXISTS quota_groups (id TEXT PRIMARY KEY, name TEXT NOT NULL, \
         created_at TEXT NOT NULL DEFAULT (datetime('now')))",
    ),
    (
        "quota_consumption",
        "CREATE TABLE IF NOT EXISTS quota_consumption (api_key_id TEXT NOT NULL, dimension_key TEXT NOT NULL, \
         bucket_index INTEGER NOT NULL, consumed REAL NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL, \
         PRIMARY KEY (api_key_id, dimension_key, bucket_index))",
    ),
    (
        "provider_plans",
        "CREATE TABLE IF NOT EXISTS provider_plans (connection_id TEXT PRIMARY KEY, provider TEXT NOT NULL, \
         dimensions_json TEXT NOT NULL, source TEXT NOT NULL DEFAULT 'manual', \
         updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, CHECK (source IN ('auto','manual')))",
    ),
    (
        "quota_allocation_model_caps",
        "CREATE TABLE IF NOT EXISTS quota_allocation_model_caps (pool_id TEXT NOT NULL, api_key_id TEXT NOT NULL, \
         model TEXT NOT NULL, cap_value REAL NOT NULL, cap_unit TEXT NOT NULL, \
         PRIMARY KEY (pool_id, api_key_id, model), CHECK (cap_value > 0), \
         CHECK (cap_unit IN ('percent','requests','tokens','usd')))",
    ),
];

/// Indexes decide the row order of queries without an ORDER BY of the host's own, and every hot query here uses one.
const INDEXES: [(&str, &str); 7] = [
    (
        "idx_quota_pools_connection",
        "CREATE INDEX IF NOT EXISTS idx_quota_pools_connection ON quota_pools (connection_id)",
    ),
    (
        "idx_quota_allocations_apikey",
        "CREATE INDEX IF NOT EXISTS idx_quota_allocations_apikey ON quota_allocations (api_key_id)",
    ),
    (
        "idx_quota_pool_connections_pool",
        "CREATE INDEX IF NOT EXISTS idx_quota_pool_connections_pool ON quota_pool_connections (pool_id)",
    ),
    (
        "idx_quota_consumption_dim_bucket",
        "CREATE INDEX IF NOT EXISTS idx_quota_consumption_dim_bucket ON quota_consumption (dimension_key, bucket_index)",
    ),
    (
        "idx_quota_consumption_updated_at",
        "CREATE INDEX IF NOT EXISTS idx_quota_consumption_updated_at ON quota_consumption (updated_at)",
    ),
    (
        "idx_provider_plans_provider",
        "CREATE INDEX IF NOT EXISTS idx_provider_plans_provider ON provider_plans (provider)",
    ),
    (
        "idx_qamc_pool_key",
        "CREATE INDEX IF NOT EXISTS idx_qamc_pool_key ON quota_allocation_model_caps (pool_id, api_key_id)",
    ),
];

/// The group every pool belongs to that names none.
pub const DEFAULT_GROUP: &str = "group-demo";
const DEFAULT_GROUP_NAME: &str = "GroupDemo";

/// Creates the tables and indexes that are missing; the names of those created. With nothing missing nothing is written,
/// so a read-only file passes.
pub fn ensure(conn: &Conn) -> Result<Vec<&'static str>, SqlError> {
    if missing(conn)?.is_empty() {
        return Ok(Vec::new());
    }
    conn.transaction(|conn| {
        // Asked again under the write lock: another process may have created them meanwhile.
        let missing = missing(conn)?;
        for (name, statement) in &missing {
            conn.execute_dynamic(statement, &[])?;
            if *name == "quota_groups" {
                conn.execute(
                    "INSERT INTO quota_groups (id, name) VALUES (?1, ?2)",
                    &[Param::Text(DEFAULT_GROUP), Param::Text(DEFAULT_GROUP_NAME)],
                )?;
            }
        }
        Ok(missing.into_iter().map(|(name, _)| name).collect())
    })
}

fn missing(conn: &Conn) -> Result<Vec<(&'static str, &'static str)>, SqlError> {
    let present: HashSet<String> = conn
        .query("SELECT name FROM sqlite_master", &[], |row| row.string(0))?
        .into_iter()
        .flatten()
        .collect();
    Ok(TABLES
        .into_iter()
        .chain(INDEXES)
        .filter(|(name, _)| !present.contains(*name))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_everything_once() {
        let conn = Conn::open_memory().unwrap();
        let created = ensure(&conn).unwrap();
        assert_eq!(created.len(), TABLES.len() + INDEXES.len());
        assert!(ensure(&conn).unwrap().is_empty());
        let groups = conn
            .query("SELECT id FROM quota_groups", &[], |row| row.string(0))
            .unwrap();
        assert_eq!(groups, [Some(DEFAULT_GROUP.to_owned())]);
    }

    #[test]
    fn what_exists_stays_as_it_is() {
        let conn = Conn::open_memory().unwrap();
        conn.execute(
            "CREATE TABLE quota_groups (id TEXT PRIMARY KEY, name TEXT, note TEXT)",
            &[],
        )
        .unwrap();
        let created = ensure(&conn).unwrap();
        assert!(!created.contains(&"quota_groups"));
        assert!(created.contains(&"quota_pools"));
        let rows = conn
            .query("SELECT note FROM quota_groups", &[], |_| ())
            .unwrap();
        assert!(rows.is_empty());
    }

    #[test]
    fn inside_the_hosts_transaction_its_rollback_undoes_it() {
        let conn = Conn::open_memory().unwrap();
        conn.execute("BEGIN", &[]).unwrap();
        assert!(!ensure(&conn).unwrap().is_empty());
        conn.execute("ROLLBACK", &[]).unwrap();
        assert_eq!(missing(&conn).unwrap().len(), TABLES.len() + INDEXES.len());
    }
}
