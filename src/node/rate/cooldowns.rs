//! Cooldowns and what is learned from errors.

use napi_derive::napi;

use super::RateEngine;
use crate::core::cooldown::Bench;
use crate::core::learning::parse_provider_limit as parse;
use crate::core::url_locality::is_loopback_or_private_url as is_local;
use crate::core::{Compat, learning};
use crate::engine::rate::Failure;
use crate::node::error::Result;
use crate::store::sqlite::cooldowns::CooldownRow;

/// How long, and on whose word.
#[napi(object)]
pub struct CooldownDecision {
    pub duration_ms: f64,
    pub source: String,
}

impl From<Bench> for CooldownDecision {
    fn from(bench: Bench) -> Self {
        Self {
            duration_ms: bench.duration,
            source: bench.source.as_str().to_owned(),
        }
    }
}

/// A benched route.
#[napi(object)]
pub struct CooldownEntry {
    pub platform: String,
    pub model_id: String,
    pub key_id: f64,
    pub expires_at_ms: f64,
    pub set_at_ms: Option<f64>,
    pub source: String,
}

impl From<CooldownRow> for CooldownEntry {
    fn from(row: CooldownRow) -> Self {
        Self {
            platform: row.platform,
            model_id: row.model,
            key_id: row.key,
            expires_at_ms: row.expires_at,
            set_at_ms: row.set_at,
            source: row.source,
        }
    }
}

/// A limit that a provider stated.
#[napi(object)]
pub struct ProviderLimit {
    pub kind: String,
    pub limit: f64,
}

impl From<learning::ProviderLimit> for ProviderLimit {
    fn from(limit: learning::ProviderLimit) -> Self {
        Self {
            kind: limit.kind.as_str().to_owned(),
            limit: limit.limit,
        }
    }
}

#[napi]
impl RateEngine {
    #[napi(catch_unwind)]
    pub fn set_cooldown(&self, route: u32, duration: f64, source: String, now: f64) -> Result<()> {
        self.engine()?.set_cooldown(route, duration, &source, now);
        Ok(())
    }

    /// Benches of these keys that are still on, soonest first.
    #[napi(catch_unwind)]
    pub fn active_cooldowns(&self, keys: Vec<f64>, now: f64) -> Result<Vec<CooldownEntry>> {
        Ok(self
            .engine()?
            .active_cooldowns(&keys, now)
            .into_iter()
            .map(CooldownEntry::from)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn clear_cooldowns_for_key(&self, key: f64) -> Result<f64> {
        Ok(self.engine()?.clear_key(key))
    }

    #[napi(catch_unwind)]
    pub fn clear_cooldown_early(&self, route: u32) -> Result<()> {
        self.engine()?.clear_early(route);
        Ok(())
    }

    #[napi(catch_unwind)]
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53 rows
    pub fn cleanup_expired_cooldowns(&self, now: f64) -> Result<f64> {
        Ok(self.engine()?.cleanup_cooldowns(now) as f64)
    }

    #[napi(catch_unwind)]
    pub fn probeable_cooldowns(&self, now: f64) -> Result<Vec<CooldownEntry>> {
        Ok(self
            .engine()?
            .probeable(now)
            .into_iter()
            .map(CooldownEntry::from)
            .collect())
    }

    #[napi(catch_unwind)]
    pub fn soonest_cooldown_expiry(&self, now: f64) -> Result<Option<f64>> {
        Ok(self.engine()?.soonest_expiry(now))
    }

    #[napi(catch_unwind)]
    pub fn next_cooldown_duration(&self, route: u32, now: f64) -> Result<f64> {
        Ok(self.engine()?.next_ladder_step(route, now))
    }

    #[napi(catch_unwind)]
    pub fn recent_hit_count(&self, route: u32, now: f64, span: f64) -> Result<u32> {
        Ok(crate::node::to_u32(
            self.engine()?.recent_hits(route, now, span),
        ))
    }

    /// `retry_after` NaN = the provider named no time.
    #[napi(catch_unwind)]
    pub fn cooldown_decision(
        &self,
        route: u32,
        rpd: f64,
        tpd: f64,
        retry_after: f64,
        quota_signal: bool,
        now: f64,
    ) -> Result<CooldownDecision> {
        let asked = (!retry_after.is_nan()).then_some(retry_after);
        Ok(self
            .engine()?
            .decide(route, rpd, tpd, asked, quota_signal, now)
            .into())
    }

    /// `status` and `retry_after` NaN = unknown.
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments)] // flat on purpose: an options object costs more than the decision
    pub fn cooldown_decision_for_error(
        &self,
        route: u32,
        rpd: f64,
        tpd: f64,
        status: f64,
        message: String,
        retry_after: f64,
        now: f64,
    ) -> Result<CooldownDecision> {
        let failure = Failure {
            status: (!status.is_nan()).then_some(status),
            message: &message,
            retry_after: (!retry_after.is_nan()).then_some(retry_after),
        };
        Ok(self
            .engine()?
            .decide_for_error(route, rpd, tpd, failure, now)
            .into())
    }

    #[napi(catch_unwind)]
    pub fn is_local_endpoint_key(&self, key: f64) -> Result<bool> {
        Ok(self.engine()?.is_local_endpoint(key))
    }

    #[napi(catch_unwind)]
    pub fn reset_key_locality(&self) -> Result<()> {
        self.engine()?.forget_key_locality();
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn learn_limit(&self, model: f64, message: String) -> Result<Option<ProviderLimit>> {
        Ok(self
            .engine()?
            .learn_limit(model, &message)
            .map(ProviderLimit::from))
    }
}

/// Whether a URL leads to this machine or a private network.
#[napi(catch_unwind)]
pub fn is_loopback_or_private_url(url: String) -> bool {
    is_local(&url)
}

/// The limit that a provider's text states, if it states one.
#[napi(catch_unwind)]
pub fn parse_provider_limit(message: String, recorded: bool) -> Option<ProviderLimit> {
    let compat = if recorded {
        Compat::Recorded
    } else {
        Compat::Corrected
    };
    parse(&message, compat).map(ProviderLimit::from)
}
