//! The window snapshot and the probe's bookkeeping.

use napi_derive::napi;

use super::RateEngine;
use super::cooldowns::CooldownEntry;
use crate::core::env_caps::positive_integer as read_positive_integer;
use crate::core::probe::Turn;
use crate::engine::rate::RipeKey;
use crate::node::error::Result;
use crate::store::sqlite::cooldowns::CooldownRow;

/// A key with benches that a probe may lift.
#[napi(object)]
pub struct ProbeCandidate {
    pub key_id: f64,
    pub cooldowns: Vec<CooldownEntry>,
}

impl From<RipeKey> for ProbeCandidate {
    fn from(ripe: RipeKey) -> Self {
        Self {
            key_id: ripe.key,
            cooldowns: ripe.benches.into_iter().map(CooldownEntry::from).collect(),
        }
    }
}

impl From<ProbeCandidate> for RipeKey {
    fn from(candidate: ProbeCandidate) -> Self {
        let benches = candidate.cooldowns.into_iter().map(|entry| CooldownRow {
            platform: entry.platform,
            model: entry.model_id,
            key: entry.key_id,
            expires_at: entry.expires_at_ms,
            set_at: entry.set_at_ms,
            source: entry.source,
        });
        Self {
            key: candidate.key_id,
            benches: benches.collect(),
        }
    }
}

#[napi]
impl RateEngine {
    /// Limits NaN = none; `key` null = none.
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments)] // flat on purpose: called once per candidate model of a router
    pub fn window_used_fraction(
        &self,
        platform: String,
        model: String,
        key: Option<f64>,
        rpm: f64,
        rpd: f64,
        tpm: f64,
        tpd: f64,
        now: f64,
    ) -> Result<Option<f64>> {
        Ok(self
            .engine()?
            .window_used_fraction(&platform, &model, key, [rpm, rpd, tpm, tpd], now))
    }

    #[napi(catch_unwind)]
    pub fn invalidate_window_usage(&self) -> Result<()> {
        self.engine()?.invalidate_snapshot();
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn probe_candidates(&self, now: f64) -> Result<Vec<ProbeCandidate>> {
        Ok(self
            .engine()?
            .probe_candidates(now)
            .into_iter()
            .map(ProbeCandidate::from)
            .collect())
    }

    /// `new`, `wait` or `due`.
    #[napi(catch_unwind)]
    pub fn probe_turn(&self, key: f64, now: f64) -> Result<String> {
        let turn = match self.engine()?.probe_turn(key, now) {
            Turn::New => "new",
            Turn::Wait => "wait",
            Turn::Due => "due",
        };
        Ok(turn.to_owned())
    }

    #[napi(catch_unwind)]
    pub fn schedule_probe(&self, key: f64, now: f64, jitter: f64) -> Result<()> {
        self.engine()?.schedule_probe(key, now, jitter);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn probe_failed(&self, key: f64, now: f64) -> Result<()> {
        self.engine()?.probe_failed(key, now);
        Ok(())
    }

    /// How many benches were lifted.
    #[napi(catch_unwind)]
    pub fn probe_succeeded(&self, candidate: ProbeCandidate) -> Result<u32> {
        Ok(self.engine()?.probe_succeeded(&candidate.into()))
    }

    #[napi(catch_unwind)]
    pub fn reset_probe(&self) -> Result<()> {
        self.engine()?.reset_probe();
        Ok(())
    }
}

/// A text that JavaScript reads as a positive whole number; null for any other.
#[napi(catch_unwind)]
pub fn positive_integer(text: String) -> Option<f64> {
    read_positive_integer(&text)
}
