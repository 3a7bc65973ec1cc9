//! The pure rules of quota sharing for JavaScript. Checks, converts, calls.

use napi_derive::napi;

use crate::core::share::Policy;
use crate::core::share::burn_rate::{self, BurnRate};
use crate::core::share::fair_share::{self, BlockReason, Decision, DimensionState};
use crate::providers::plans;

/// Tokens per second, and the time until the rest is used up.
#[napi(object)]
pub struct ShareBurnRate {
    pub tokens_per_second: f64,
    #[napi(ts_type = "number | null")]
    pub time_to_exhaustion_ms: Option<f64>,
}

impl From<BurnRate> for ShareBurnRate {
    fn from(rate: BurnRate) -> Self {
        Self {
            tokens_per_second: rate.tokens_per_second,
            time_to_exhaustion_ms: rate.time_to_exhaustion_ms,
        }
    }
}

/// NaN stands for a number that is not there.
fn known(number: f64) -> Option<f64> {
    (!number.is_nan()).then_some(number)
}

/// Fields per dimension in `share_decide`: limit, total, used (0..1), consumed by the key, cap (NaN: none).
const FIELDS: usize = 5;

/// The fair-share decision: 0 allow, 1 allow but penalized, 2 cap-absolute, 3 global-saturated, 4 fair-share.
#[napi(catch_unwind)]
pub fn share_decide(states: &[f64], weight: f64, policy: String, threshold: f64) -> u32 {
    let states: Vec<DimensionState> = states
        .chunks_exact(FIELDS)
        .map(|fields| DimensionState {
            limit: fields[0],
            consumed_total: fields[1],
            global_used: fields[2],
            consumed_by_key: fields[3],
            cap: known(fields[4]),
        })
        .collect();
    match fair_share::decide(&states, weight, Policy::parse(&policy), threshold) {
        Decision::Allow { penalized: false } => 0,
        Decision::Allow { penalized: true } => 1,
        Decision::Block(BlockReason::CapAbsolute) => 2,
        Decision::Block(BlockReason::GlobalSaturated) => 3,
        Decision::Block(BlockReason::FairShare) => 4,
    }
}

/// Burn rate of a history of (ts, consumed) pairs, flat; `remaining` NaN when unknown.
#[napi(catch_unwind)]
pub fn share_burn_rate(history: &[f64], remaining: f64) -> ShareBurnRate {
    let samples: Vec<(f64, f64)> = history
        .chunks_exact(2)
        .map(|sample| (sample[0], sample[1]))
        .collect();
    burn_rate::from_history(&samples, known(remaining)).into()
}

/// Burn rate since the window's bucket began.
#[napi(catch_unwind)]
pub fn share_burn_rate_from_window(
    consumed_total: f64,
    window: f64,
    now: f64,
    remaining: f64,
) -> ShareBurnRate {
    burn_rate::from_window(consumed_total, window, now, known(remaining)).into()
}

/// A row of the plan catalog.
#[napi(object)]
pub struct KnownPlan {
    pub provider: String,
    pub dimensions: Vec<super::share::ShareDimension>,
}

/// The plan catalog, in its order.
#[napi(catch_unwind)]
pub fn share_catalog() -> Vec<KnownPlan> {
    plans::CATALOG
        .iter()
        .map(|(provider, dimensions)| KnownPlan {
            provider: (*provider).to_owned(),
            dimensions: dimensions
                .iter()
                .map(|(unit, window, limit)| super::share::ShareDimension {
                    unit: (*unit).to_owned(),
                    window: (*window).to_owned(),
                    limit: *limit,
                })
                .collect(),
        })
        .collect()
}
