//! Counts, caps and status.

use napi_derive::napi;

use super::RateEngine;
use crate::core::env_caps::{account_cap, key_concurrency_limit as limit_of_key};
use crate::node::error::Result;
use crate::providers::caps::AccountCap;

#[napi]
impl RateEngine {
    /// Requests per minute and day, tokens per minute and day.
    #[napi(catch_unwind)]
    pub fn used(&self, route: u32, now: f64) -> Result<Vec<f64>> {
        let used = self.engine()?.used(route, now);
        Ok(vec![used.rpm, used.rpd, used.tpm, used.tpd])
    }

    #[napi(catch_unwind)]
    pub fn reset_leases(&self) -> Result<()> {
        self.engine()?.reset_leases();
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
    pub fn daily_tokens(&self, account: u32, now: f64, published: f64) -> Result<f64> {
        let published = (!published.is_nan()).then_some(published);
        Ok(self.engine()?.daily_tokens(account, now, published))
    }

    /// The account-wide cap `kind` of a key, given the platform's (NaN = none); null = none.
    #[napi(catch_unwind)]
    pub fn key_cap(
        &self,
        kind: u32,
        platform: String,
        key: f64,
        published: f64,
    ) -> Result<Option<f64>> {
        let published = (!published.is_nan()).then_some(published);
        Ok(self.engine()?.cap(cap_of(kind), &platform, key, published))
    }
}

/// The requests in flight that one key may have, from the texts of both variables; null = no limit.
#[napi(catch_unwind)]
pub fn key_concurrency_limit(specific: Option<String>, general: Option<String>) -> Option<f64> {
    limit_of_key(specific.as_deref(), general.as_deref())
}

/// A platform's account-wide cap `kind` (0 daily requests, 1 requests per minute, 2 daily tokens), from the text of its
/// variable; null = none.
#[napi(catch_unwind)]
pub fn published_cap(kind: u32, platform: String, env: Option<String>) -> Option<f64> {
    account_cap(cap_of(kind), &platform, env.as_deref(), None)
}

fn cap_of(kind: u32) -> AccountCap {
    AccountCap::ALL
        .get(kind as usize)
        .copied()
        .unwrap_or(AccountCap::DailyRequests)
}
