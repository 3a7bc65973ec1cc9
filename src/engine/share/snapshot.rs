//! Who used how much of a pool. Owns the grouping of counters by key: one query per limit, never one per key.

use rustc_hash::FxHashMap;

use super::ShareEngine;
use crate::core::share::burn_rate::{self, BurnRate};
use crate::core::share::fair_share::share_of;
use crate::core::share::plan::PlanDimension;
use crate::core::share::sliding::{Pair, bucket_index, total, value, window_ms};
use crate::core::share::{dimension_key, equal_weight};
use crate::store::sqlite::share_pools::Pool;
use crate::store::sqlite::{Conn, SqlError, SqlErrorKind, share_pools};

/// Which limits and shares a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageView {
    /// The plan's limit and the stored weights, as the originals show them.
    Recorded,
    /// What enforcement goes by: the limit times the pool's connections, equal shares when all weights are zero.
    Enforced,
}

#[derive(Debug, PartialEq)]
pub struct SnapshotDimension {
    /// Which of the asked dimensions this is.
    pub index: usize,
    pub limit: f64,
    pub consumed_total: f64,
    /// Per key, in the order of [`Snapshot::keys`]: consumed and fair share.
    pub consumed: Vec<f64>,
    pub fair_share: Vec<f64>,
}

#[derive(Debug, PartialEq)]
pub struct Snapshot {
    pub keys: Vec<String>,
    pub dimensions: Vec<SnapshotDimension>,
    /// From the first tokens dimension, when it has consumption.
    pub burn_rate: Option<BurnRate>,
}

impl ShareEngine {
    /// Usage of a pool in the given dimensions; `None` for an unknown pool. Dimensions of unknown windows are left out.
    pub fn snapshot(
        &self,
        conn: &Conn,
        pool_id: &str,
        dimensions: &[PlanDimension],
        usage: UsageView,
        now: f64,
    ) -> Result<Option<Snapshot>, SqlError> {
        self.view(conn, |view| {
            let Some(pool) = view.pool(pool_id)? else {
                return Ok(None);
            };
            let counters = |_, dimension: &PlanDimension, bucket| {
                let counter = dimension_key(pool_id, &dimension.unit, &dimension.window).into();
                let keys = pool.allocations.iter().map(|row| row.api_key_id.as_str());
                view.pairs(&counter, bucket, keys)
            };
            snapshot_of(&pool, dimensions, usage, now, counters).map(Some)
        })
    }

    /// The same of counters that are kept elsewhere: `pairs` holds the two buckets of each of `keys`, dimension after
    /// dimension. Keys that left the pool are among them, or not seen.
    pub fn snapshot_of_counters(
        &self,
        conn: &Conn,
        pool_id: &str,
        dimensions: &[PlanDimension],
        usage: UsageView,
        now: f64,
        (keys, pairs): (&[String], &[Pair]),
    ) -> Result<Option<Snapshot>, SqlError> {
        let Some(pool) = share_pools::get(conn, pool_id)? else {
            return Ok(None);
        };
        let counters = |index, _: &PlanDimension, _| {
            let start: usize = index * keys.len();
            let used = pairs.get(start..start + keys.len()).unwrap_or_default();
            let of_key: FxHashMap<&str, Pair> = keys
                .iter()
                .map(String::as_str)
                .zip(used.iter().copied())
                .collect();
            let rows = pool.allocations.iter();
            let each = rows.map(|row| of_key.get(&*row.api_key_id).copied().unwrap_or_default());
            Ok((each.collect(), total(used)))
        };
        snapshot_of(&pool, dimensions, usage, now, counters).map(Some)
    }

    /// The limits of a pool by the plan of its main connection; none for an unknown pool or provider.
    pub fn pool_dimensions(
        &self,
        conn: &Conn,
        pool_id: &str,
    ) -> Result<Vec<PlanDimension>, SqlError> {
        let Some(pool) = share_pools::get(conn, pool_id)? else {
            return Ok(Vec::new());
        };
        let main = pool.connection_ids.first().map_or("", String::as_str);
        let provider = match share_pools::provider_of(conn, main) {
            Ok(provider) => provider.unwrap_or_default(),
            // A database of our own does not know the host's connections; a stored plan still applies.
            Err(error) if error.kind() == SqlErrorKind::MissingTable => String::new(),
            Err(error) => return Err(error),
        };
        let resolved = self.plans.resolve(conn, main, &provider, self.compat);
        resolved
            .error
            .map_or_else(|| Ok(resolved.plan.dimensions.clone()), Err)
    }
}

/// `counters` gives the buckets of every allocated key, and their sums over all keys, of the dimension with that index.
fn snapshot_of(
    pool: &Pool,
    dimensions: &[PlanDimension],
    usage: UsageView,
    now: f64,
    mut counters: impl FnMut(usize, &PlanDimension, f64) -> Result<(Vec<Pair>, Pair), SqlError>,
) -> Result<Snapshot, SqlError> {
    let (weights, factor) = shares(pool, usage);
    let mut snapshot = Snapshot {
        keys: Vec::new(),
        dimensions: Vec::new(),
        burn_rate: None,
    };
    let mut tokens_seen = false;
    for (index, dimension) in dimensions.iter().enumerate() {
        let window = window_ms(&dimension.window);
        if window.is_nan() {
            continue;
        }
        let (pairs, totals) = counters(index, dimension, bucket_index(now, window))?;
        let consumed: Vec<f64> = pairs
            .into_iter()
            .map(|pair| value(pair, now, window))
            .collect();
        let total = match usage {
            UsageView::Recorded => consumed.iter().fold(0.0, |sum, used| sum + used),
            // Enforcement counts keys that left the pool, too.
            UsageView::Enforced => value(totals, now, window),
        };
        let limit = dimension.limit * factor;
        if dimension.unit == "tokens" && !std::mem::replace(&mut tokens_seen, true) && total > 0.0 {
            snapshot.burn_rate = Some(burn_rate::from_window(
                total,
                window,
                now,
                Some(limit - total),
            ));
        }
        snapshot.dimensions.push(SnapshotDimension {
            index,
            limit,
            consumed_total: total,
            consumed,
            fair_share: weights
                .iter()
                .map(|weight| share_of(*weight, limit))
                .collect(),
        });
    }
    snapshot.keys = pool
        .allocations
        .iter()
        .map(|row| row.api_key_id.clone())
        .collect();
    Ok(snapshot)
}

/// Weight per key, and by how much the plan's limit is multiplied.
#[allow(clippy::cast_precision_loss)] // a count of rows
fn shares(pool: &Pool, view: UsageView) -> (Vec<f64>, f64) {
    let weights: Vec<f64> = pool.allocations.iter().map(|row| row.weight).collect();
    match (view, equal_weight(weights.iter().copied())) {
        (UsageView::Recorded, _) => (weights, 1.0),
        (UsageView::Enforced, equal) => {
            let weights = equal.map_or(weights, |equal| vec![equal; pool.allocations.len()]);
            (weights, pool.connection_ids.len().max(1) as f64)
        }
    }
}
