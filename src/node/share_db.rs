//! Schema, pools and groups of quota sharing for JavaScript. Checks, converts, calls.

use napi_derive::napi;

use super::error::{Code, Result};
use super::share::ShareEngine;
use crate::core::share::equal_weight;
use crate::store::sqlite::share_groups::{self, Group, GroupError};
use crate::store::sqlite::share_pools::{
    self, Allocation, NewAllocation, NewPool, Pool, PoolChange, PoolError,
};
use crate::store::sqlite::share_schema;

#[napi(object)]
pub struct ShareAllocation {
    pub api_key_id: String,
    pub weight: f64,
    pub policy: String,
    pub cap_value: Option<f64>,
    pub cap_unit: Option<String>,
}

/// An allocation to be written; the table judges what is missing.
#[napi(object)]
pub struct ShareNewAllocation {
    pub api_key_id: Option<String>,
    pub weight: f64,
    pub policy: Option<String>,
    pub cap_value: Option<f64>,
    pub cap_unit: Option<String>,
}

#[napi(object)]
pub struct SharePool {
    pub id: String,
    pub connection_id: String,
    pub connection_ids: Vec<String>,
    pub name: String,
    pub group_id: String,
    pub created_at: String,
    pub allocations: Vec<ShareAllocation>,
}

#[napi(object)]
pub struct ShareKeyAllocation {
    pub pool_id: String,
    pub allocation: ShareAllocation,
}

#[napi(object)]
pub struct ShareGroup {
    pub id: String,
    pub name: String,
    pub created_at: String,
}

impl From<Allocation> for ShareAllocation {
    fn from(row: Allocation) -> Self {
        Self {
            api_key_id: row.api_key_id,
            weight: row.weight,
            policy: row.policy.as_str().to_owned(),
            cap_value: row.cap_value,
            cap_unit: row.cap_unit,
        }
    }
}

impl From<ShareNewAllocation> for NewAllocation {
    fn from(row: ShareNewAllocation) -> Self {
        Self {
            api_key_id: row.api_key_id,
            weight: row.weight,
            policy: row.policy,
            cap_value: row.cap_value,
            cap_unit: row.cap_unit,
        }
    }
}

impl From<Pool> for SharePool {
    fn from(pool: Pool) -> Self {
        Self {
            id: pool.id,
            connection_id: pool.connection_id,
            connection_ids: pool.connection_ids,
            name: pool.name,
            group_id: pool.group_id,
            created_at: pool.created_at,
            allocations: pool.allocations.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Group> for ShareGroup {
    fn from(group: Group) -> Self {
        Self {
            id: group.id,
            name: group.name,
            created_at: group.created_at,
        }
    }
}

impl From<PoolError> for napi::Error<Code> {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::MixedProviders(_) => Self::new(Code::PoolProviders, error.to_string()),
            PoolError::Sql(error) => error.into(),
        }
    }
}

impl From<GroupError> for napi::Error<Code> {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::IsDefault | GroupError::HasPools(_) => {
                Self::new(Code::GroupInUse, error.to_string())
            }
            GroupError::Sql(error) => error.into(),
        }
    }
}

fn new_allocations(rows: Vec<ShareNewAllocation>) -> Vec<NewAllocation> {
    rows.into_iter().map(Into::into).collect()
}

#[napi]
impl ShareEngine {
    /// Names of the tables and indexes it had to create.
    #[napi(catch_unwind)]
    pub fn ensure_schema(&self) -> Result<Vec<String>> {
        let created = share_schema::ensure(&self.conn()?)?;
        Ok(created.into_iter().map(str::to_owned).collect())
    }

    #[napi(catch_unwind)]
    pub fn list_pools(&self) -> Result<Vec<SharePool>> {
        Ok(share_pools::list(&self.conn()?)?
            .into_iter()
            .map(Into::into)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn pools_by_group(&self, group_id: String) -> Result<Vec<SharePool>> {
        Ok(share_pools::list_by_group(&self.conn()?, &group_id)?
            .into_iter()
            .map(Into::into)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn get_pool(&self, id: String) -> Result<Option<SharePool>> {
        Ok(share_pools::get(&self.conn()?, &id)?.map(Into::into))
    }

    #[napi(catch_unwind)]
    pub fn create_pool(
        &self,
        id: String,
        connection_ids: Vec<String>,
        name: String,
        group_id: String,
        created_at: String,
        allocations: Vec<ShareNewAllocation>,
    ) -> Result<()> {
        let pool = NewPool {
            id: &id,
            connection_ids: &connection_ids,
            name: &name,
            group_id: &group_id,
            created_at: &created_at,
            allocations: &new_allocations(allocations),
        };
        Ok(share_pools::create(&self.conn()?, &pool)?)
    }

    /// False when there is no such pool.
    #[napi(catch_unwind)]
    pub fn update_pool(
        &self,
        id: String,
        name: Option<String>,
        group_id: Option<String>,
        connection_ids: Option<Vec<String>>,
        allocations: Option<Vec<ShareNewAllocation>>,
    ) -> Result<bool> {
        let allocations = allocations.map(new_allocations);
        let change = PoolChange {
            name: name.as_deref(),
            group_id: group_id.as_deref(),
            connection_ids: connection_ids.as_deref(),
            allocations: allocations.as_deref(),
        };
        Ok(share_pools::update(&self.conn()?, &id, &change)?)
    }

    #[napi(catch_unwind)]
    pub fn delete_pool(&self, id: String) -> Result<bool> {
        Ok(share_pools::delete(
            &self.conn()?,
            &id,
            self.engine.compat(),
        )?)
    }

    /// For every pool of the pool's group; weights that say nothing become equal.
    #[napi(catch_unwind)]
    pub fn replace_allocations(
        &self,
        id: String,
        allocations: Vec<ShareNewAllocation>,
    ) -> Result<()> {
        let mut allocations = new_allocations(allocations);
        if let Some(equal) = equal_weight(allocations.iter().map(|row| row.weight)) {
            for row in &mut allocations {
                row.weight = equal;
            }
        }
        Ok(share_pools::replace_allocations(
            &self.conn()?,
            &id,
            &allocations,
        )?)
    }

    #[napi(catch_unwind)]
    pub fn allocations_of_key(&self, key: String) -> Result<Vec<ShareKeyAllocation>> {
        let rows = share_pools::allocations_of_key(&self.conn()?, &key)?;
        Ok(rows
            .into_iter()
            .map(|(pool_id, allocation)| ShareKeyAllocation {
                pool_id,
                allocation: allocation.into(),
            })
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn list_groups(&self) -> Result<Vec<ShareGroup>> {
        Ok(share_groups::list(&self.conn()?)?
            .into_iter()
            .map(Into::into)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn get_group(&self, id: String) -> Result<Option<ShareGroup>> {
        Ok(share_groups::get(&self.conn()?, &id)?.map(Into::into))
    }

    #[napi(catch_unwind)]
    pub fn create_group(&self, id: String, name: String, created_at: String) -> Result<()> {
        Ok(share_groups::create(
            &self.conn()?,
            &Group {
                id,
                name,
                created_at,
            },
        )?)
    }

    #[napi(catch_unwind)]
    pub fn rename_group(&self, id: String, name: String) -> Result<bool> {
        Ok(share_groups::rename(&self.conn()?, &id, &name)?)
    }

    #[napi(catch_unwind)]
    pub fn delete_group(&self, id: String) -> Result<bool> {
        Ok(share_groups::delete(&self.conn()?, &id)?)
    }
}
