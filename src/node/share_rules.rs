//! The pure rules of quota sharing for JavaScript. Checks, converts, calls.

use napi_derive::napi;

use crate::core::share::Policy;
use crate::core::share::burn_rate::{self, BurnRate};
use crate::core::share::fair_share::{self, Decision, DimensionState};
use crate::core::share::retry::{self, Counted};
use crate::core::share::sliding::WINDOWS;
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

/// Fields per dimension in `share_decide`: limit, total, used (0..1), consumed by the key, cap (NaN: none), window in ms,
/// and whether the total is counted (1) or the provider's own signal (0).
const FIELDS: usize = 7;

/// A fair-share decision.
#[napi(object)]
pub struct ShareDecision {
    /// `cap-absolute`, `global-saturated` or `fair-share`; absent: allowed.
    pub reason: Option<String>,
    pub penalized: bool,
    /// When the counters alone let the key through again, at the latest (epoch ms); absent when they never do.
    pub clears_at: Option<f64>,
}

/// The fair-share decision on values whose buckets are not known.
#[napi(catch_unwind)]
pub fn share_decide(
    states: &[f64],
    weight: f64,
    policy: String,
    threshold: f64,
    now: f64,
) -> ShareDecision {
    let counted: Vec<Counted> = states.chunks_exact(FIELDS).map(counted).collect();
    let policy = Policy::parse(&policy);
    match fair_share::decide(
        counted.iter().map(|counted| &counted.state),
        weight,
        policy,
        threshold,
    ) {
        Decision::Allow { penalized } => ShareDecision {
            reason: None,
            penalized,
            clears_at: None,
        },
        Decision::Block(reason) => ShareDecision {
            reason: Some(reason.as_str().to_owned()),
            penalized: false,
            clears_at: retry::all_clear_at(counted, weight, policy, threshold, now),
        },
    }
}

fn counted(fields: &[f64]) -> Counted {
    let state = DimensionState {
        limit: fields[0],
        consumed_total: fields[1],
        global_used: fields[2],
        consumed_by_key: fields[3],
        cap: known(fields[4]),
    };
    Counted {
        state,
        own: retry::slowest(state.consumed_by_key),
        total: (fields[6] > 0.0).then(|| retry::slowest(state.consumed_total)),
        window: fields[5],
    }
}

/// When a counter of this value reads below a bound, at the latest (epoch ms); absent when it never does.
#[napi(catch_unwind)]
pub fn share_clears_at(value: f64, bound: f64, now: f64, window: f64) -> Option<f64> {
    retry::clears_at(retry::slowest(value), bound, now, window)
}

/// Window lengths in ms by name, for JavaScript's own arithmetic.
#[napi(object)]
pub struct ShareWindow {
    pub name: String,
    pub ms: f64,
}

#[napi(catch_unwind)]
pub fn share_windows() -> Vec<ShareWindow> {
    WINDOWS
        .iter()
        .map(|(name, ms)| ShareWindow {
            name: (*name).to_owned(),
            ms: *ms,
        })
        .collect()
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
