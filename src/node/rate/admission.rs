//! Admission, as JavaScript calls it: requests come as one flat array of numbers.

use napi::bindgen_prelude::{Float64Array, Uint32Array};
use napi_derive::napi;

use super::hot::with;
use crate::core::admission::Gate;
use crate::engine::rate::{Candidate, Refusal, Settled};
use crate::node::error::Result;

/// Numbers per request, in this order: route, tokens, rpm, rpd, tpm, tpd, concurrency, the platform's caps per day, per
/// minute and of tokens, account (0 or 1), among how many replicas every limit is divided. NaN = none.
const WIDTH: usize = 12;
/// The index of the admitted request takes the lower bits of the answer, its lease the rest.
const INDEX_RANGE: f64 = 65_536.0;

fn candidate(numbers: &[f64]) -> Candidate {
    Candidate {
        route: numbers[0] as u32,
        tokens: numbers[1],
        rpm: numbers[2],
        rpd: numbers[3],
        tpm: numbers[4],
        tpd: numbers[5],
        concurrency: numbers[6],
        cap_daily: numbers[7],
        cap_minute: numbers[8],
        cap_tokens: numbers[9],
        account: numbers[10] != 0.0,
        replicas: numbers[11],
    }
}

/// The first `count` requests; lease and index of the one that was admitted as `lease * 65536 + index`, or -1.
pub(super) fn admit(requests: &[f64], [engine, count, now, dry]: [f64; 4]) -> Result<f64> {
    with(engine, |cell| {
        let candidates = requests
            .chunks_exact(WIDTH)
            .take(count as usize)
            .map(candidate);
        let admitted = cell.engine()?.admit(candidates, now, dry != 0.0);
        Ok(admitted.map_or(-1.0, |(index, lease)| {
            lease as f64 * INDEX_RANGE + index as f64
        }))
    })
}

/// What the accounts of the first `count` requests are held to: per minute, per day, tokens per day, billed tokens per token
/// of each request.
#[napi(catch_unwind)]
pub fn account_limits(engine: f64, requests: &[f64], count: u32) -> Result<Float64Array> {
    with(engine, |cell| {
        let mut engine = cell.engine()?;
        let limits: Vec<f64> = requests
            .chunks_exact(WIDTH)
            .take(count as usize)
            .flat_map(|numbers| {
                let limits = engine.account_limits(&candidate(numbers));
                [
                    limits.minute,
                    limits.daily,
                    limits.tokens,
                    limits.multiplier,
                ]
            })
            .collect();
        Ok(limits.into())
    })
}

/// A gate as JavaScript sees it.
#[napi(object)]
pub struct GateReport {
    pub axis: String,
    pub limit: f64,
    pub used: f64,
    pub in_flight: f64,
    pub remaining: f64,
    pub passes: bool,
}

impl From<&Gate> for GateReport {
    fn from(gate: &Gate) -> Self {
        Self {
            axis: gate.axis.as_str().to_owned(),
            limit: gate.limit,
            used: gate.used,
            in_flight: gate.in_flight,
            remaining: gate.remaining(),
            passes: gate.passes(),
        }
    }
}

/// A gate that refuses.
#[napi(object)]
pub struct RefusalReport {
    pub gate: GateReport,
    pub retry_at_ms: Option<f64>,
    pub never: bool,
    pub source: Option<String>,
}

impl From<Refusal> for RefusalReport {
    fn from(refusal: Refusal) -> Self {
        Self {
            gate: (&refusal.gate).into(),
            retry_at_ms: refusal.retry_at,
            never: refusal.never,
            source: refusal.source,
        }
    }
}

/// Every gate of one request.
#[napi(object)]
pub struct Explanation {
    pub gates: Vec<GateReport>,
    pub refusals: Vec<RefusalReport>,
}

#[napi(catch_unwind)]
pub fn explain(engine: f64, request: &[f64], index: u32, now: f64) -> Result<Explanation> {
    with(engine, |cell| {
        let start = index as usize * WIDTH;
        let Some(numbers) = request.get(start..start + WIDTH) else {
            return Ok(Explanation {
                gates: Vec::new(),
                refusals: Vec::new(),
            });
        };
        let (gates, refusals) = cell.engine()?.explain(&candidate(numbers), now);
        Ok(Explanation {
            gates: gates.iter().map(GateReport::from).collect(),
            refusals: refusals.into_iter().map(RefusalReport::from).collect(),
        })
    })
}

/// How full each request would make its fullest axis, and their order, emptiest first.
#[napi(object)]
pub struct Ranking {
    pub order: Uint32Array,
    pub pressure: Float64Array,
}

#[napi(catch_unwind)]
pub fn rank(engine: f64, requests: &[f64], count: u32, now: f64) -> Result<Ranking> {
    with(engine, |cell| {
        let mut engine = cell.engine()?;
        let pressure: Vec<f64> = requests
            .chunks_exact(WIDTH)
            .take(count as usize)
            .map(|numbers| engine.pressure(&candidate(numbers), now))
            .collect();
        let mut order: Vec<u32> = (0..crate::node::to_u32(pressure.len())).collect();
        order.sort_by(|a, b| pressure[*a as usize].total_cmp(&pressure[*b as usize]));
        Ok(Ranking {
            order: order.into(),
            pressure: pressure.into(),
        })
    })
}

/// 0 nothing to settle, 1 recorded, 2 recorded although the lease had been dropped for its age. `tokens` NaN = the estimate.
pub(super) fn settle([engine, lease, tokens, requests, now]: [f64; 5]) -> Result<f64> {
    with(engine, |cell| {
        let tokens = (!tokens.is_nan()).then_some(tokens);
        let settled = cell
            .engine()?
            .settle(lease as u64, tokens, requests as u32, now);
        Ok(match settled {
            Settled::Unknown => 0.0,
            Settled::Recorded => 1.0,
            Settled::RecordedLate => 2.0,
        })
    })
}

/// 1 when there was such a lease.
pub(super) fn cancel([engine, lease]: [f64; 2]) -> Result<f64> {
    with(engine, |cell| {
        Ok(f64::from(u8::from(cell.engine()?.cancel(lease as u64))))
    })
}

/// The counters of an engine in the Prometheus format.
#[napi(catch_unwind)]
pub fn metrics(engine: f64) -> Result<String> {
    with(engine, |cell| Ok(cell.engine()?.metrics_text()))
}
