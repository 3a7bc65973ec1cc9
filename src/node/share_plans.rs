//! Plans, model caps and raw counters of quota sharing for JavaScript. Checks, converts, calls.

use napi_derive::napi;

use super::error::Result;
use super::share::{ShareDimension, ShareEngine, dimensions};
use crate::store::sqlite::share_consumption;
use crate::store::sqlite::share_plans::{self, ModelCap, PlanRow};

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

#[napi]
impl ShareEngine {
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
