//! Provider quota across the boundary: flat numbers and texts in, plain objects out. NaN stands for "no number" in both directions.

use napi_derive::napi;

use super::link::Link;
use crate::core::Compat;
use crate::core::headroom::{self, Ramp};
use crate::core::quota_observation::{Known, Response, Source, observations_of};
use crate::engine::{NewObservation, ProviderQuota as Engine, Recorded};
use crate::providers::{pools, quota_headers};
use crate::store::sqlite::quota_queries::{ObservationRow, StateKey, StateRow};

fn some(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn nan(number: Option<f64>) -> f64 {
    number.unwrap_or(f64::NAN)
}

/// The key of the quota pool that a model draws on.
#[napi(catch_unwind)]
pub fn infer_quota_pool_key(platform: String, model_id: Option<String>) -> String {
    pools::infer_pool_key(&platform, model_id.as_deref())
}

/// Do several models of this platform draw on one quota?
#[napi(catch_unwind)]
pub fn is_shared_pool(platform: String) -> bool {
    pools::is_shared_pool(&platform)
}

/// The headers that `ProviderQuota.read` wants for a platform, in its order.
#[napi(catch_unwind)]
pub fn quota_header_names(platform: String) -> Vec<&'static str> {
    quota_headers::header_names(&platform)
}

#[napi(catch_unwind)]
pub fn headroom_factor(used_tokens: f64, budget_tokens: f64, ramp_start: f64, floor: f64) -> f64 {
    headroom::headroom_factor(used_tokens, budget_tokens, Ramp::new(ramp_start, floor))
}

#[napi(catch_unwind)]
pub fn rate_window_headroom_factor(used_fraction: f64, ramp_start: f64, floor: f64) -> f64 {
    headroom::rate_window_factor(used_fraction, Ramp::new(ramp_start, floor))
}

/// What a response says about one metric.
#[napi(object, object_from_js = false)]
pub struct QuotaReading {
    pub metric: &'static str,
    pub limit: f64,
    pub remaining: f64,
    pub reset_at: Option<String>,
    /// Whether this kind of observation speaks of a wait at all.
    pub has_wait: bool,
    pub retry_after_ms: f64,
    pub reset_strategy: &'static str,
    pub source: &'static str,
    pub confidence: f64,
    pub notes: Option<String>,
}

/// An observation to record; absent texts are `undefined`.
#[napi(object)]
pub struct QuotaRecord {
    pub id: String,
    pub platform: String,
    pub key_id: f64,
    pub quota_pool_key: String,
    pub metric: String,
    pub provider_account_id: Option<String>,
    pub model_id: Option<String>,
    pub endpoint: Option<String>,
    pub status_code: f64,
    pub limit: f64,
    pub remaining: f64,
    pub reset_at: Option<String>,
    pub retry_after_ms: f64,
    pub reset_strategy: String,
    pub source: String,
    /// NaN: what the source is worth.
    pub confidence: f64,
    pub notes: Option<String>,
    pub raw_json: Option<String>,
    pub observed_at: String,
}

/// What became of a record.
#[napi(object, object_from_js = false)]
pub struct QuotaRecorded {
    /// `written`, `closed` (no open connection) or `refused`.
    pub outcome: &'static str,
    /// What is known now, when written.
    pub confidence: f64,
    pub notes: Option<String>,
}

/// A row of the quota panel.
#[napi(object, object_from_js = false)]
pub struct QuotaStateRow {
    pub platform: String,
    pub key_id: f64,
    pub key_label: Option<String>,
    pub quota_pool_key: String,
    pub metric: String,
    pub limit: f64,
    pub remaining: f64,
    pub reset_at: Option<String>,
    pub reset_strategy: String,
    pub source: String,
    pub confidence: f64,
    pub notes: Option<String>,
    pub observed_at: Option<String>,
    pub updated_at: Option<String>,
    pub provider_account_id: Option<String>,
    pub model_id: Option<String>,
    pub endpoint: Option<String>,
    pub status_code: f64,
    pub retry_after_ms: f64,
    pub raw_json: Option<String>,
    pub created_at: Option<String>,
}

impl From<StateRow> for QuotaStateRow {
    fn from(row: StateRow) -> Self {
        Self {
            platform: row.platform,
            key_id: row.key_id,
            key_label: row.key_label,
            quota_pool_key: row.pool,
            metric: row.metric,
            limit: nan(row.known.limit),
            remaining: nan(row.known.remaining),
            reset_at: row.known.reset_at,
            reset_strategy: row.known.reset_strategy,
            source: row.known.source,
            confidence: row.known.confidence,
            notes: row.known.notes,
            observed_at: row.observed_at,
            updated_at: row.updated_at,
            provider_account_id: row.provider_account_id,
            model_id: row.model_id,
            endpoint: row.endpoint,
            status_code: nan(row.status_code),
            retry_after_ms: nan(row.retry_after_ms),
            raw_json: row.raw_json,
            created_at: row.created_at,
        }
    }
}

/// The provider-quota part of an instance.
#[napi]
pub struct ProviderQuota(Engine);

#[napi]
impl ProviderQuota {
    #[napi(constructor, catch_unwind)]
    pub fn new(link: &Link, recorded: bool) -> Self {
        let compat = if recorded {
            Compat::Recorded
        } else {
            Compat::Corrected
        };
        Self(Engine::new(link.link.clone(), compat))
    }

    /// What a response says: `headers` in the order of `quotaHeaderNames`, `js_date` what `Date.parse` makes of its
    /// `retry-after`. Null when a reset is no date (recorded mode only).
    #[napi(catch_unwind)]
    pub fn read(
        &self,
        platform: String,
        status: f64,
        headers: Vec<Option<String>>,
        js_date: f64,
        now: f64,
    ) -> Option<Vec<QuotaReading>> {
        let names = quota_headers::header_names(&platform);
        let header = |name: &str| {
            let at = names.iter().position(|known| *known == name)?;
            headers.get(at)?.as_deref()
        };
        let response = Response {
            platform: &platform,
            status,
            retry_after_js_date: js_date,
            now,
        };
        let readings = observations_of(response, header, self.0.compat()).ok()?;
        Some(
            readings
                .into_iter()
                .map(|seen| QuotaReading {
                    metric: seen.metric,
                    limit: nan(seen.limit),
                    remaining: nan(seen.remaining),
                    reset_at: seen.reset_at,
                    has_wait: seen.retry_after_ms.is_some(),
                    retry_after_ms: nan(seen.retry_after_ms.flatten()),
                    reset_strategy: seen.reset_strategy,
                    source: seen.source.as_str(),
                    confidence: seen.confidence,
                    notes: seen.notes,
                })
                .collect(),
        )
    }

    /// Records one observation.
    #[napi(catch_unwind)]
    pub fn record(&self, record: QuotaRecord) -> QuotaRecorded {
        let worth = || {
            Source::parse(&record.source)
                .unwrap_or(Source::Documentation)
                .default_confidence()
        };
        let seen = Known {
            limit: some(record.limit),
            remaining: some(record.remaining),
            reset_at: record.reset_at,
            reset_strategy: record.reset_strategy,
            confidence: some(record.confidence).unwrap_or_else(worth),
            source: record.source,
            notes: record.notes,
        };
        let outcome = self.0.record(NewObservation {
            key: StateKey {
                platform: &record.platform,
                key_id: record.key_id,
                pool: &record.quota_pool_key,
                metric: &record.metric,
            },
            seen: &seen,
            row: ObservationRow {
                id: &record.id,
                provider_account_id: record.provider_account_id.as_deref(),
                model_id: record.model_id.as_deref(),
                status_code: some(record.status_code),
                retry_after_ms: some(record.retry_after_ms),
                raw_json: record.raw_json.as_deref(),
                endpoint: record.endpoint.as_deref(),
                observed_at: &record.observed_at,
            },
        });
        match outcome {
            Recorded::Written(known) => QuotaRecorded {
                outcome: "written",
                confidence: known.confidence,
                notes: known.notes,
            },
            Recorded::NoDatabase => QuotaRecorded {
                outcome: "closed",
                confidence: f64::NAN,
                notes: None,
            },
            Recorded::Refused => QuotaRecorded {
                outcome: "refused",
                confidence: f64::NAN,
                notes: None,
            },
        }
    }

    /// The quota panel; null without an open connection.
    #[napi(catch_unwind)]
    pub fn states(&self, now: f64) -> Option<Vec<QuotaStateRow>> {
        Some(
            self.0
                .states(now)?
                .into_iter()
                .map(QuotaStateRow::from)
                .collect(),
        )
    }

    /// Key id, share, key id, share, …; null without an open connection.
    #[napi(catch_unwind)]
    pub fn headroom(&self, platform: String, now: f64) -> Option<Vec<f64>> {
        Some(
            self.0
                .headroom(&platform, now)?
                .into_iter()
                .flat_map(|(key, share)| [key, share])
                .collect(),
        )
    }

    #[napi(catch_unwind)]
    pub fn invalidate(&self, platform: Option<String>) {
        self.0.invalidate(platform.as_deref());
    }

    /// The keys, roomiest first.
    #[napi(catch_unwind)]
    pub fn order_keys(
        &self,
        platform: String,
        model_id: Option<String>,
        mut keys: Vec<f64>,
        now: f64,
    ) -> Vec<f64> {
        self.0
            .order_keys(&platform, model_id.as_deref(), &mut keys, now);
        keys
    }

    #[napi(catch_unwind)]
    pub fn reset(&self) {
        self.0.reset();
    }
}
