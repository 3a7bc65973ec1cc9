//! Counters and snapshots of quota sharing for JavaScript. Checks, converts, calls.

use napi_derive::napi;

use super::error::Result;
use super::share::{ShareDimension, ShareEngine, dimensions};
use crate::core::share::plan::PlanDimension;
use crate::core::share::sliding::window_ms;
use crate::engine::share::{Snapshot, UsageView};

/// Usage of a pool, flat: values of dimension `d` and key `k` are at `d * keys.length + k`.
#[napi(object)]
pub struct ShareSnapshot {
    pub keys: Vec<String>,
    /// Which of the asked dimensions are shown.
    pub indexes: Vec<u32>,
    pub limits: Vec<f64>,
    pub totals: Vec<f64>,
    pub consumed: napi::bindgen_prelude::Float64Array,
    pub fair_share: napi::bindgen_prelude::Float64Array,
    pub tokens_per_second: Option<f64>,
    pub time_to_exhaustion_ms: Option<f64>,
}

#[napi]
impl ShareEngine {
    /// Adds to a counter; its new value.
    #[napi(catch_unwind)]
    pub fn consume(
        &self,
        key: String,
        dimension: String,
        window: String,
        cost: f64,
        now: f64,
    ) -> Result<f64> {
        let conn = self.conn()?;
        Ok(self
            .engine
            .consume(&conn, &key, &dimension, window_ms(&window), cost, now)?)
    }

    /// The value of a counter.
    #[napi(catch_unwind)]
    pub fn peek(&self, key: String, dimension: String, window: String, now: f64) -> Result<f64> {
        let conn = self.conn()?;
        Ok(self
            .engine
            .peek(&conn, &key, &dimension, window_ms(&window), now)?)
    }

    /// The value of a counter over all keys.
    #[napi(catch_unwind)]
    pub fn dimension_total(&self, dimension: String, window: String, now: f64) -> Result<f64> {
        let conn = self.conn()?;
        Ok(self
            .engine
            .dimension_total(&conn, &dimension, window_ms(&window), now)?)
    }

    /// Forgets a counter.
    #[napi(catch_unwind)]
    pub fn clear(&self, key: String, dimension: String, window: String, now: f64) -> Result<()> {
        let conn = self.conn()?;
        Ok(self
            .engine
            .clear(&conn, &key, &dimension, window_ms(&window), now)?)
    }

    /// Deletes old buckets; how many.
    #[napi(catch_unwind)]
    #[allow(clippy::cast_precision_loss)] // a count of rows
    pub fn collect(&self, retention_days: f64, now: f64) -> Result<f64> {
        let conn = self.conn()?;
        Ok(self.engine.collect(&conn, retention_days, now)? as f64)
    }

    /// The limits of a pool by the plan of its main connection.
    #[napi(catch_unwind)]
    pub fn pool_dimensions(&self, pool_id: String) -> Result<Vec<ShareDimension>> {
        let conn = self.conn()?;
        Ok(dimensions(&self.engine.pool_dimensions(&conn, &pool_id)?))
    }

    /// Usage of a pool; nothing for an unknown one.
    #[napi(catch_unwind)]
    pub fn snapshot(
        &self,
        pool_id: String,
        asked: Vec<ShareDimension>,
        enforced_view: bool,
        now: f64,
    ) -> Result<Option<ShareSnapshot>> {
        let conn = self.conn()?;
        let (asked, view) = (plan_dimensions(asked), usage_view(enforced_view));
        let snapshot = self.engine.snapshot(&conn, &pool_id, &asked, view, now)?;
        Ok(snapshot.map(ShareSnapshot::from))
    }

    /// Usage of a pool by counters kept elsewhere: buckets of every key, dimension after dimension.
    #[cfg(feature = "redis")]
    #[napi(catch_unwind)]
    pub fn snapshot_of_counters(
        &self,
        pool_id: String,
        asked: Vec<ShareDimension>,
        enforced_view: bool,
        now: f64,
        keys: Vec<String>,
        pairs: &[f64],
    ) -> Result<Option<ShareSnapshot>> {
        let conn = self.conn()?;
        let (asked, view) = (plan_dimensions(asked), usage_view(enforced_view));
        let counters = super::redis::pairs(pairs);
        let snapshot = self.engine.snapshot_of_counters(
            &conn,
            &pool_id,
            &asked,
            view,
            now,
            (&keys, &counters),
        )?;
        Ok(snapshot.map(ShareSnapshot::from))
    }
}

fn plan_dimensions(asked: Vec<ShareDimension>) -> Vec<PlanDimension> {
    asked
        .into_iter()
        .map(|dimension| PlanDimension {
            unit: dimension.unit,
            window: dimension.window,
            limit: dimension.limit,
        })
        .collect()
}

fn usage_view(enforced: bool) -> UsageView {
    if enforced {
        UsageView::Enforced
    } else {
        UsageView::Recorded
    }
}

impl From<Snapshot> for ShareSnapshot {
    fn from(snapshot: Snapshot) -> Self {
        let shown = &snapshot.dimensions;
        Self {
            indexes: shown
                .iter()
                .map(|dimension| u32::try_from(dimension.index).unwrap_or(u32::MAX))
                .collect(),
            limits: shown.iter().map(|dimension| dimension.limit).collect(),
            totals: shown
                .iter()
                .map(|dimension| dimension.consumed_total)
                .collect(),
            consumed: shown
                .iter()
                .flat_map(|dimension| &dimension.consumed)
                .copied()
                .collect::<Vec<_>>()
                .into(),
            fair_share: shown
                .iter()
                .flat_map(|dimension| &dimension.fair_share)
                .copied()
                .collect::<Vec<_>>()
                .into(),
            tokens_per_second: snapshot.burn_rate.map(|rate| rate.tokens_per_second),
            time_to_exhaustion_ms: snapshot
                .burn_rate
                .and_then(|rate| rate.time_to_exhaustion_ms),
            keys: snapshot.keys,
        }
    }
}
