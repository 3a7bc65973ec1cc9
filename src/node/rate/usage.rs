//! Gates, leases, records and caps.

use napi_derive::napi;

use super::RateEngine;
use crate::core::env_caps::key_concurrency_limit;
use crate::node::error::Result;
use crate::providers::caps::AccountCap;

#[napi]
impl RateEngine {
    #[napi(catch_unwind)]
    pub fn can_make_request(&self, route: u32, now: f64, rpm: f64, rpd: f64) -> Result<u32> {
        let allowed = self.engine()?.can_make_request(route, now, rpm, rpd);
        Ok(self.verdict(allowed))
    }

    #[napi(catch_unwind)]
    pub fn can_use_tokens(
        &self,
        route: u32,
        now: f64,
        wanted: f64,
        tpm: f64,
        tpd: f64,
    ) -> Result<u32> {
        let allowed = self.engine()?.can_use_tokens(route, now, wanted, tpm, tpd);
        Ok(self.verdict(allowed))
    }

    /// Requests per minute and day, tokens per minute and day.
    #[napi(catch_unwind)]
    pub fn used(&self, route: u32, now: f64) -> Result<Vec<f64>> {
        let used = self.engine()?.used(route, now);
        Ok(vec![used.rpm, used.rpd, used.tpm, used.tpd])
    }

    #[napi(catch_unwind)]
    #[allow(clippy::cast_precision_loss)] // ids stay far below 2^53
    pub fn acquire_lease(&self, route: u32, tokens: f64, now: f64) -> Result<f64> {
        Ok(self.engine()?.acquire_lease(route, tokens, now) as f64)
    }

    #[napi(catch_unwind)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // what is no id saturates to one never given
    pub fn release_lease(&self, id: f64) -> Result<()> {
        if id.fract() == 0.0 {
            self.engine()?.release_lease(id as u64);
        }
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn reset_leases(&self) -> Result<()> {
        self.engine()?.reset_leases();
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn in_flight(&self, account: u32, now: f64) -> Result<u32> {
        Ok(self.engine()?.in_flight(account, now))
    }

    #[napi(catch_unwind)]
    pub fn record_request(&self, route: u32, now: f64) -> Result<()> {
        self.engine()?.record_request(route, now);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn record_tokens(&self, route: u32, tokens: f64, now: f64) -> Result<()> {
        self.engine()?.record_tokens(route, tokens, now);
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn daily_requests(&self, account: u32, now: f64) -> Result<f64> {
        Ok(self.engine()?.daily_requests(account, now))
    }

    #[napi(catch_unwind)]
    pub fn minute_requests(&self, account: u32, now: f64) -> Result<f64> {
        Ok(self.engine()?.minute_requests(account, now))
    }

    #[napi(catch_unwind)]
    pub fn daily_tokens(&self, account: u32, now: f64, env: Option<String>) -> Result<f64> {
        Ok(self.engine()?.daily_tokens(account, now, env.as_deref()))
    }

    #[napi(catch_unwind)]
    pub fn can_use_provider(&self, account: u32, now: f64, env: Option<String>) -> Result<u32> {
        let allowed = self
            .engine()?
            .can_use_provider(account, now, env.as_deref());
        Ok(self.verdict(allowed))
    }

    #[napi(catch_unwind)]
    pub fn can_use_provider_minute(
        &self,
        account: u32,
        now: f64,
        env: Option<String>,
    ) -> Result<u32> {
        let allowed = self
            .engine()?
            .can_use_provider_minute(account, now, env.as_deref());
        Ok(self.verdict(allowed))
    }

    #[napi(catch_unwind)]
    pub fn can_use_provider_tokens(
        &self,
        account: u32,
        model: String,
        wanted: f64,
        now: f64,
        env: Option<String>,
    ) -> Result<u32> {
        let allowed =
            self.engine()?
                .can_use_provider_tokens(account, &model, wanted, now, env.as_deref());
        Ok(self.verdict(allowed))
    }

    /// The account-wide cap `kind` (0 daily requests, 1 requests per minute, 2 daily tokens); null = none.
    #[napi(catch_unwind)]
    pub fn cap(
        &self,
        kind: u32,
        platform: String,
        key: Option<f64>,
        env: Option<String>,
    ) -> Result<Option<f64>> {
        let cap = AccountCap::ALL
            .get(kind as usize)
            .copied()
            .unwrap_or(AccountCap::DailyRequests);
        Ok(self.engine()?.cap(cap, &platform, key, env.as_deref()))
    }

    /// The requests in flight that one key may have, from the texts of both variables; null = no limit.
    #[napi(catch_unwind)]
    #[allow(
        clippy::unused_self,
        reason = "a method, as JavaScript calls the others"
    )]
    pub fn key_concurrency_limit(
        &self,
        specific: Option<String>,
        general: Option<String>,
    ) -> Option<f64> {
        key_concurrency_limit(specific.as_deref(), general.as_deref())
    }
}
