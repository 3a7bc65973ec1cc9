//! Groups of pools: rows of `quota_groups`. Owns their SQL.

use super::share_schema::DEFAULT_GROUP;
use super::{Conn, Param, Row, SqlError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub id: String,
    pub name: String,
    pub created_at: String,
}

#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("the default group cannot be deleted")]
    IsDefault,
    #[error("the group still has {0} pool(s): move or delete them first")]
    HasPools(i64),
    #[error(transparent)]
    Sql(#[from] SqlError),
}

/// All groups, oldest first.
pub fn list(conn: &Conn) -> Result<Vec<Group>, SqlError> {
    conn.query(
        "SELECT id, name, created_at FROM quota_groups ORDER BY created_at, rowid",
        &[],
        group,
    )
}

/// (Primary key.)
pub fn get(conn: &Conn, id: &str) -> Result<Option<Group>, SqlError> {
    conn.query_row(
        "SELECT id, name, created_at FROM quota_groups WHERE id = ?1",
        &[Param::Text(id)],
        group,
    )
}

fn group(row: &Row<'_>) -> Group {
    Group {
        id: row.string(0).unwrap_or_default(),
        name: row.string(1).unwrap_or_default(),
        created_at: row.string(2).unwrap_or_default(),
    }
}

pub fn create(conn: &Conn, group: &Group) -> Result<(), SqlError> {
    conn.execute(
        "INSERT INTO quota_groups (id, name, created_at) VALUES (?1, ?2, ?3)",
        &[
            Param::Text(&group.id),
            Param::Text(&group.name),
            Param::Text(&group.created_at),
        ],
    )?;
    Ok(())
}

/// Whether there was one.
pub fn rename(conn: &Conn, id: &str, name: &str) -> Result<bool, SqlError> {
    let renamed = conn.execute(
        "UPDATE quota_groups SET name = ?2 WHERE id = ?1",
        &[Param::Text(id), Param::Text(name)],
    )?;
    Ok(renamed > 0)
}

/// Whether there was one. The default group and one that still has pools are refused.
pub fn delete(conn: &Conn, id: &str) -> Result<bool, GroupError> {
    if id == DEFAULT_GROUP {
        return Err(GroupError::IsDefault);
    }
    conn.transaction(|conn| {
        let pools = conn
            .query_row(
                "SELECT COUNT(*) FROM quota_pools WHERE group_id = ?1",
                &[Param::Text(id)],
                |row| row.int(0),
            )?
            .flatten()
            .unwrap_or(0);
        if pools > 0 {
            return Err(GroupError::HasPools(pools));
        }
        Ok(conn.execute("DELETE FROM quota_groups WHERE id = ?1", &[Param::Text(id)])? > 0)
    })
}
