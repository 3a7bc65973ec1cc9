//! Pools, groups, plans, caps and raw counters for JavaScript. Checks, converts, calls.

use napi_derive::napi;

use super::error::{Code, Result};
use super::share::{ShareDimension, ShareEngine, dimensions};
use crate::core::share::equal_weight;
use crate::store::sqlite::share_groups::{self, Group, GroupError};
use crate::store::sqlite::share_plans::{self, ModelCap, PlanRow};
use crate::store::sqlite::share_pools::{
    self, Allocation, NewAllocation, NewPool, Pool, PoolChange, PoolError,
};
use crate::store::sqlite::{share_consumption, share_schema};

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

#[napi(object)]
pub struct SharePlanRow {
    pub connection_id: String,
    pub provider: String,
    pub dimensions_json: String,
    pub source: String,
}

/// The plan that applies: a stored row's text, or the dimensions known of the provider (none: no plan).
#[napi(object)]
pub struct ShareResolvedPlan {
    pub stored: Option<SharePlanRow>,
    pub known: bool,
    /// A plan on which the host's own code throws.
    pub unreadable: bool,
    pub dimensions: Vec<ShareDimension>,
}

#[napi(object)]
pub struct ShareModelCap {
    pub pool_id: String,
    pub api_key_id: String,
    pub model: String,
    pub cap_value: f64,
    pub cap_unit: String,
}

#[napi(object)]
pub struct ShareConsumptionRow {
    pub api_key_id: String,
    pub dimension_key: String,
    pub bucket_index: f64,
    pub consumed: f64,
    pub updated_at: f64,
}

#[napi(object)]
pub struct SharePair {
    pub curr: f64,
    pub prev: f64,
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

impl From<PlanRow> for SharePlanRow {
    fn from(row: PlanRow) -> Self {
        Self {
            connection_id: row.connection_id,
            provider: row.provider,
            dimensions_json: row.dimensions_json,
            source: row.source,
        }
    }
}

impl From<ModelCap> for ShareModelCap {
    fn from(cap: ModelCap) -> Self {
        Self {
            pool_id: cap.pool_id,
            api_key_id: cap.api_key_id,
            model: cap.model,
            cap_value: cap.cap_value,
            cap_unit: cap.cap_unit,
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

    /// Never an error: a failing plans table is no stored plan.
    #[napi(catch_unwind)]
    pub fn resolve_plan(&self, connection_id: String, provider: String) -> ShareResolvedPlan {
        let resolved = self.engine.resolve_plan(&connection_id, &provider);
        ShareResolvedPlan {
            known: resolved.stored.is_none() && !resolved.plan.dimensions.is_empty(),
            unreadable: resolved.stored.is_none() && resolved.plan.unreadable,
            dimensions: dimensions(&resolved.plan.dimensions),
            stored: resolved.stored.map(Into::into),
        }
    }

    #[napi(catch_unwind)]
    pub fn get_plan(&self, connection_id: String) -> Result<Option<SharePlanRow>> {
        Ok(share_plans::get(&self.conn()?, &connection_id)?.map(Into::into))
    }

    #[napi(catch_unwind)]
    pub fn list_plans(&self) -> Result<Vec<SharePlanRow>> {
        Ok(share_plans::list(&self.conn()?)?
            .into_iter()
            .map(Into::into)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn upsert_plan(&self, row: SharePlanRow, updated_at: String) -> Result<()> {
        let row = PlanRow {
            connection_id: row.connection_id,
            provider: row.provider,
            dimensions_json: row.dimensions_json,
            source: row.source,
        };
        Ok(share_plans::upsert(&self.conn()?, &row, &updated_at)?)
    }

    #[napi(catch_unwind)]
    pub fn delete_plan(&self, connection_id: String) -> Result<bool> {
        Ok(share_plans::delete(&self.conn()?, &connection_id)?)
    }

    #[napi(catch_unwind)]
    pub fn get_model_cap(
        &self,
        pool_id: String,
        key: String,
        model: String,
    ) -> Result<Option<ShareModelCap>> {
        Ok(share_plans::get_model_cap(&self.conn()?, &pool_id, &key, &model)?.map(Into::into))
    }

    #[napi(catch_unwind)]
    pub fn list_model_caps(&self, pool_id: String, key: String) -> Result<Vec<ShareModelCap>> {
        Ok(share_plans::list_model_caps(&self.conn()?, &pool_id, &key)?
            .into_iter()
            .map(Into::into)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn set_model_cap(&self, cap: ShareModelCap) -> Result<()> {
        let cap = ModelCap {
            pool_id: cap.pool_id,
            api_key_id: cap.api_key_id,
            model: cap.model,
            cap_value: cap.cap_value,
            cap_unit: cap.cap_unit,
        };
        Ok(share_plans::set_model_cap(&self.conn()?, &cap)?)
    }

    #[napi(catch_unwind)]
    pub fn delete_model_cap(&self, pool_id: String, key: String, model: String) -> Result<()> {
        Ok(share_plans::delete_model_cap(
            &self.conn()?,
            &pool_id,
            &key,
            &model,
        )?)
    }

    #[napi(catch_unwind)]
    pub fn get_bucket(&self, key: String, dimension: String, bucket: f64) -> Result<f64> {
        Ok(share_consumption::bucket(
            &self.conn()?,
            &key,
            &dimension,
            bucket,
        )?)
    }

    #[napi(catch_unwind)]
    pub fn increment_bucket(
        &self,
        key: String,
        dimension: String,
        bucket: f64,
        cost: f64,
        now: f64,
    ) -> Result<()> {
        Ok(share_consumption::increment(
            &self.conn()?,
            &key,
            &dimension,
            bucket,
            cost,
            now,
        )?)
    }

    #[napi(catch_unwind)]
    pub fn get_pair(&self, key: String, dimension: String, bucket: f64) -> Result<SharePair> {
        let pair = share_consumption::pair(&self.conn()?, &key, &dimension, bucket)?;
        Ok(SharePair {
            curr: pair.curr,
            prev: pair.prev,
        })
    }

    #[napi(catch_unwind)]
    pub fn sum_dimension(&self, dimension: String, bucket: f64) -> Result<SharePair> {
        let pair = share_consumption::dimension_totals(&self.conn()?, &dimension, bucket)?;
        Ok(SharePair {
            curr: pair.curr,
            prev: pair.prev,
        })
    }

    #[napi(catch_unwind)]
    pub fn list_consumption(
        &self,
        pool_id: String,
        limit: f64,
    ) -> Result<Vec<ShareConsumptionRow>> {
        let rows = share_consumption::list_for_pool(&self.conn()?, &pool_id, limit)?;
        Ok(rows
            .into_iter()
            .map(|row| ShareConsumptionRow {
                api_key_id: row.api_key_id,
                dimension_key: row.dimension_key,
                bucket_index: row.bucket_index,
                consumed: row.consumed,
                updated_at: row.updated_at,
            })
            .collect())
    }

    #[napi(catch_unwind)]
    #[allow(clippy::cast_precision_loss)] // a count of rows
    pub fn delete_older_than(&self, cutoff: f64) -> Result<f64> {
        Ok(share_consumption::delete_older_than(&self.conn()?, cutoff)? as f64)
    }
}
