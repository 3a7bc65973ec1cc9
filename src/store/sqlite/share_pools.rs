//! Pools and what belongs to them: rows of `quota_pools`, `quota_pool_connections` and `quota_allocations`. Owns their SQL
//! and the unit in which they change; what a pool means for a request is decided elsewhere.

use rustc_hash::FxHashMap;

use super::share_schema::DEFAULT_GROUP;
use super::{Conn, Param, Row, SqlError, SqlErrorKind};
use crate::core::Compat;
use crate::core::share::Policy;

#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    pub api_key_id: String,
    pub weight: f64,
    pub policy: Policy,
    pub cap_value: Option<f64>,
    pub cap_unit: Option<String>,
}

/// An allocation to be written: the policy stays text, the table's own CHECK judges it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAllocation {
    pub api_key_id: Option<String>,
    pub weight: f64,
    pub policy: Option<String>,
    pub cap_value: Option<f64>,
    pub cap_unit: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub id: String,
    pub connection_id: String,
    pub connection_ids: Vec<String>,
    pub name: String,
    /// The default group where the row names none.
    pub group_id: String,
    pub created_at: String,
    pub allocations: Vec<Allocation>,
}

/// A change of pools that the database or the rule of one provider refused.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error("a pool's connections must belong to a single provider, and these belong to {0}")]
    MixedProviders(String),
    #[error(transparent)]
    Sql(#[from] SqlError),
}

pub struct NewPool<'a> {
    pub id: &'a str,
    /// The first is the pool's main connection.
    pub connection_ids: &'a [String],
    pub name: &'a str,
    pub group_id: &'a str,
    pub created_at: &'a str,
    pub allocations: &'a [NewAllocation],
}

/// What is `None` stays as it is.
#[derive(Default)]
pub struct PoolChange<'a> {
    pub name: Option<&'a str>,
    pub group_id: Option<&'a str>,
    pub connection_ids: Option<&'a [String]>,
    pub allocations: Option<&'a [NewAllocation]>,
}

const SELECT_ALL: &str = "SELECT id, connection_id, name, group_id, created_at FROM quota_pools ORDER BY created_at, rowid";
const SELECT_GROUP: &str = "SELECT id, connection_id, name, group_id, created_at FROM quota_pools WHERE group_id = ?1 \
                            ORDER BY created_at, rowid";
const SELECT_ONE: &str =
    "SELECT id, connection_id, name, group_id, created_at FROM quota_pools WHERE id = ?1";
// Members in the order they joined (index on pool), allocations by key (primary key).
const MEMBERS_ONE: &str =
    "SELECT pool_id, connection_id FROM quota_pool_connections WHERE pool_id = ?1 ORDER BY rowid";
const MEMBERS_ALL: &str =
    "SELECT pool_id, connection_id FROM quota_pool_connections ORDER BY rowid";
const ALLOCATIONS_ONE: &str = "SELECT pool_id, api_key_id, weight, policy, cap_value, cap_unit FROM quota_allocations \
                               WHERE pool_id = ?1 ORDER BY api_key_id";
const ALLOCATIONS_ALL: &str = "SELECT pool_id, api_key_id, weight, policy, cap_value, cap_unit FROM quota_allocations ORDER BY pool_id, api_key_id";

/// All pools, oldest first.
pub fn list(conn: &Conn) -> Result<Vec<Pool>, SqlError> {
    let pools = conn.query(SELECT_ALL, &[], bare_pool)?;
    Ok(fill(
        pools,
        conn.query(MEMBERS_ALL, &[], member)?,
        conn.query(ALLOCATIONS_ALL, &[], allocation)?,
    ))
}

/// Pools whose row names this group, oldest first.
pub fn list_by_group(conn: &Conn, group_id: &str) -> Result<Vec<Pool>, SqlError> {
    let pools = conn.query(SELECT_GROUP, &[Param::Text(group_id)], bare_pool)?;
    if pools.is_empty() {
        return Ok(pools);
    }
    Ok(fill(
        pools,
        conn.query(MEMBERS_ALL, &[], member)?,
        conn.query(ALLOCATIONS_ALL, &[], allocation)?,
    ))
}

pub fn get(conn: &Conn, id: &str) -> Result<Option<Pool>, SqlError> {
    let Some(pool) = conn.query_row(SELECT_ONE, &[Param::Text(id)], bare_pool)? else {
        return Ok(None);
    };
    let members = conn.query(MEMBERS_ONE, &[Param::Text(id)], member)?;
    let allocations = conn.query(ALLOCATIONS_ONE, &[Param::Text(id)], allocation)?;
    Ok(fill(vec![pool], members, allocations).pop())
}

fn bare_pool(row: &Row<'_>) -> Pool {
    Pool {
        id: row.string(0).unwrap_or_default(),
        connection_id: row.string(1).unwrap_or_default(),
        connection_ids: Vec::new(),
        name: row.string(2).unwrap_or_default(),
        group_id: row
            .string(3)
            .filter(|group| !group.is_empty())
            .unwrap_or_else(|| DEFAULT_GROUP.to_owned()),
        created_at: row.string(4).unwrap_or_default(),
        allocations: Vec::new(),
    }
}

fn member(row: &Row<'_>) -> (String, String) {
    (
        row.string(0).unwrap_or_default(),
        row.string(1).unwrap_or_default(),
    )
}

fn allocation(row: &Row<'_>) -> (String, Allocation) {
    let allocation = Allocation {
        api_key_id: row.string(1).unwrap_or_default(),
        weight: row.num(2).unwrap_or(0.0),
        policy: Policy::parse(row.text(3).unwrap_or_default()),
        cap_value: row.num(4),
        cap_unit: row.string(5),
    };
    (row.string(0).unwrap_or_default(), allocation)
}

fn fill(
    mut pools: Vec<Pool>,
    members: Vec<(String, String)>,
    allocations: Vec<(String, Allocation)>,
) -> Vec<Pool> {
    let place: FxHashMap<String, usize> = pools
        .iter()
        .enumerate()
        .map(|(at, pool)| (pool.id.clone(), at))
        .collect();
    for (pool_id, connection_id) in members {
        if let Some(at) = place.get(&pool_id) {
            pools[*at].connection_ids.push(connection_id);
        }
    }
    for (pool_id, allocation) in allocations {
        if let Some(at) = place.get(&pool_id) {
            pools[*at].allocations.push(allocation);
        }
    }
    for pool in &mut pools {
        // A pool of the time before members had rows of their own.
        if pool.connection_ids.is_empty() && !pool.connection_id.is_empty() {
            pool.connection_ids.push(pool.connection_id.clone());
        }
    }
    pools
}

/// Allocations of a key over all pools, oldest row first. (Index on the key.)
pub fn allocations_of_key(conn: &Conn, key: &str) -> Result<Vec<(String, Allocation)>, SqlError> {
    conn.query(
        "SELECT pool_id, api_key_id, weight, policy, cap_value, cap_unit FROM quota_allocations \
         WHERE api_key_id = ?1 ORDER BY rowid",
        &[Param::Text(key)],
        allocation,
    )
}

pub fn create(conn: &Conn, pool: &NewPool<'_>) -> Result<(), PoolError> {
    conn.transaction(|conn| {
        require_single_provider(conn, pool.connection_ids)?;
        conn.execute(
            "INSERT INTO quota_pools (id, connection_id, name, group_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            &[
                Param::Text(pool.id),
                Param::Text(pool.connection_ids.first().map_or("", String::as_str)),
                Param::Text(pool.name),
                Param::Text(pool.group_id),
                Param::Text(pool.created_at),
            ],
        )?;
        insert_members(conn, pool.id, pool.connection_ids)?;
        insert_allocations(conn, pool.id, pool.allocations)?;
        Ok(())
    })
}

/// False when there is no such pool.
pub fn update(conn: &Conn, id: &str, change: &PoolChange<'_>) -> Result<bool, PoolError> {
    conn.transaction(|conn| {
        if conn
            .query_row(
                "SELECT 1 FROM quota_pools WHERE id = ?1",
                &[Param::Text(id)],
                |_| (),
            )?
            .is_none()
        {
            return Ok(false);
        }
        if let Some(name) = change.name {
            conn.execute(
                "UPDATE quota_pools SET name = ?2 WHERE id = ?1",
                &[Param::Text(id), Param::Text(name)],
            )?;
        }
        if let Some(group) = change.group_id {
            conn.execute(
                "UPDATE quota_pools SET group_id = ?2 WHERE id = ?1",
                &[Param::Text(id), Param::Text(group)],
            )?;
        }
        if let Some(ids) = change.connection_ids {
            require_single_provider(conn, ids)?;
            let main = Param::Text(ids.first().map_or("", String::as_str));
            conn.execute(
                "UPDATE quota_pools SET connection_id = ?2 WHERE id = ?1",
                &[Param::Text(id), main],
            )?;
            conn.execute(
                "DELETE FROM quota_pool_connections WHERE pool_id = ?1",
                &[Param::Text(id)],
            )?;
            insert_members(conn, id, ids)?;
        }
        if let Some(allocations) = change.allocations {
            conn.execute(
                "DELETE FROM quota_allocations WHERE pool_id = ?1",
                &[Param::Text(id)],
            )?;
            insert_allocations(conn, id, allocations)?;
        }
        Ok(true)
    })
}

/// Replaces the allocations of the pool and of every other pool of its group.
pub fn replace_allocations(
    conn: &Conn,
    id: &str,
    allocations: &[NewAllocation],
) -> Result<(), SqlError> {
    conn.transaction(|conn| {
        let group = conn
            .query_row(
                "SELECT group_id FROM quota_pools WHERE id = ?1",
                &[Param::Text(id)],
                |row| row.string(0),
            )?
            .flatten()
            .filter(|group| !group.is_empty());
        let pools = match group {
            Some(group) => conn.query(
                "SELECT id FROM quota_pools WHERE group_id = ?1 ORDER BY created_at, rowid",
                &[Param::Text(&group)],
                |row| row.string(0).unwrap_or_default(),
            )?,
            None => vec![id.to_owned()],
        };
        for pool in &pools {
            conn.execute(
                "DELETE FROM quota_allocations WHERE pool_id = ?1",
                &[Param::Text(pool)],
            )?;
            insert_allocations(conn, pool, allocations)?;
        }
        Ok(())
    })
}

/// Deletes the pool with its members and allocations, and takes its id out of the keys that were limited to it. Corrected:
/// its model caps go too, and a key whose list is no JSON is left alone instead of failing the whole. False: no such pool.
pub fn delete(conn: &Conn, id: &str, compat: Compat) -> Result<bool, SqlError> {
    conn.transaction(|conn| {
        prune_keys(conn, id, compat)?;
        if compat == Compat::Corrected {
            let caps = "DELETE FROM quota_allocation_model_caps WHERE pool_id = ?1";
            match conn.execute(caps, &[Param::Text(id)]) {
                Err(error) if error.kind() != SqlErrorKind::MissingTable => return Err(error),
                _ => {}
            }
        }
        conn.execute(
            "DELETE FROM quota_allocations WHERE pool_id = ?1",
            &[Param::Text(id)],
        )?;
        conn.execute(
            "DELETE FROM quota_pool_connections WHERE pool_id = ?1",
            &[Param::Text(id)],
        )?;
        Ok(conn.execute("DELETE FROM quota_pools WHERE id = ?1", &[Param::Text(id)])? > 0)
    })
}

fn prune_keys(conn: &Conn, id: &str, compat: Compat) -> Result<(), SqlError> {
    let find = match compat {
        // json_each raises an error on the first text that is no JSON.
        Compat::Recorded => {
            "SELECT k.id, k.allowed_quotas FROM api_keys k \
             WHERE EXISTS (SELECT 1 FROM json_each(k.allowed_quotas) WHERE value = ?1)"
        }
        Compat::Corrected => {
            "SELECT k.id, k.allowed_quotas FROM api_keys k WHERE EXISTS (SELECT 1 FROM json_each(CASE \
             WHEN json_valid(k.allowed_quotas) THEN k.allowed_quotas ELSE '[]' END) WHERE value = ?1)"
        }
    };
    let keys = conn.query(find, &[Param::Text(id)], |row| {
        (
            row.string(0).unwrap_or_default(),
            row.string(1).unwrap_or_default(),
        )
    });
    let keys = match keys {
        Ok(keys) => keys,
        // A database of our own has no keys table.
        Err(error) if error.kind() == SqlErrorKind::MissingTable => return Ok(()),
        Err(error) => return Err(error),
    };
    for (key, list) in keys {
        let Ok(serde_json::Value::Array(mut pools)) = serde_json::from_str(&list) else {
            continue;
        };
        pools.retain(|pool| pool.as_str() != Some(id));
        let kept = serde_json::Value::Array(pools).to_string();
        conn.execute(
            "UPDATE api_keys SET allowed_quotas = ?2 WHERE id = ?1",
            &[Param::Text(&key), Param::Text(&kept)],
        )?;
    }
    Ok(())
}

/// Connections that the host does not know are nobody's; a database without that table knows none.
fn require_single_provider(conn: &Conn, ids: &[String]) -> Result<(), PoolError> {
    let mut first: Option<String> = None;
    for id in ids {
        let provider = match provider_of(conn, id) {
            Ok(provider) => provider,
            Err(error) if error.kind() == SqlErrorKind::MissingTable => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match (&first, provider) {
            (Some(known), Some(provider)) if *known != provider => {
                return Err(PoolError::MixedProviders(format!("{known} and {provider}")));
            }
            (None, Some(provider)) => first = Some(provider),
            _ => {}
        }
    }
    Ok(())
}

/// The provider of a connection of the host. (Primary key.)
pub fn provider_of(conn: &Conn, connection_id: &str) -> Result<Option<String>, SqlError> {
    Ok(conn
        .query_row(
            "SELECT provider FROM provider_connections WHERE id = ?1",
            &[Param::Text(connection_id)],
            |row| row.string(0),
        )?
        .flatten())
}

fn insert_members(conn: &Conn, pool_id: &str, ids: &[String]) -> Result<(), SqlError> {
    for id in ids {
        conn.execute(
            "INSERT INTO quota_pool_connections (pool_id, connection_id) VALUES (?1, ?2)",
            &[Param::Text(pool_id), Param::Text(id)],
        )?;
    }
    Ok(())
}

fn insert_allocations(
    conn: &Conn,
    pool_id: &str,
    allocations: &[NewAllocation],
) -> Result<(), SqlError> {
    for allocation in allocations {
        conn.execute(
            "INSERT INTO quota_allocations (pool_id, api_key_id, weight, cap_value, cap_unit, policy) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            &[
                Param::Text(pool_id),
                allocation.api_key_id.as_deref().into(),
                Param::Num(allocation.weight),
                allocation.cap_value.into(),
                allocation.cap_unit.as_deref().into(),
                allocation.policy.as_deref().into(),
            ],
        )?;
    }
    Ok(())
}
