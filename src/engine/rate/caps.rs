//! Account-wide caps: a platform and key over all models.

use super::memory::{MemoryUsage, Span};
use super::{Account, RateEngine};
use crate::core::Compat;
use crate::core::billing::{billed_tokens, token_multiplier};
use crate::core::env_caps::account_cap;
use crate::core::gates::{admits_request, admits_tokens};
use crate::providers::caps::{AccountCap, BILLS_BY_MULTIPLIER};
use crate::store::sqlite::usage::UsageKind;
use crate::store::sqlite::{host, usage};

impl RateEngine {
    /// The cap of a platform, or of one of its keys. `env` is the text of the platform's variable.
    pub fn cap(
        &mut self,
        cap: AccountCap,
        platform: &str,
        key: Option<f64>,
        env: Option<&str>,
    ) -> Option<f64> {
        let own = key
            .and_then(|key| self.ask_quietly(|conn| host::key_cap(conn, key, cap)))
            .flatten();
        account_cap(cap, platform, env, own)
    }

    fn account_requests(&mut self, account: &Account, span: Span, after: f64) -> f64 {
        let (platform, key) = (&*account.platform, account.key);
        let used = match self.ask(|conn| usage::account_requests(conn, platform, key, after)) {
            Some(count) => count,
            None => events(&self.memory, account, span, after),
        };
        used + events(&self.backlog, account, span, after)
    }

    /// `providerDailyRequestCount`: since midnight UTC.
    pub fn daily_requests(&mut self, account: u32, now: f64) -> f64 {
        let after = self.windows.utc_day(now);
        self.account(account).map_or(0.0, |account| {
            self.account_requests(&account, Span::Day, after)
        })
    }

    /// `providerMinuteRequestCount`: the last minute.
    pub fn minute_requests(&mut self, account: u32, now: f64) -> f64 {
        let after = self.windows.minute(now);
        self.account(account).map_or(0.0, |account| {
            self.account_requests(&account, Span::Minute, after)
        })
    }

    /// `providerDailyTokenCount`: billed tokens since midnight UTC, rounded up per model. Without a cap nothing is
    /// billed, so the count is 0.
    pub fn daily_tokens(&mut self, account: u32, now: f64, env: Option<&str>) -> f64 {
        let Some(account) = self.account(account) else {
            return 0.0;
        };
        match self.cap(
            AccountCap::DailyTokens,
            &account.platform,
            Some(account.key),
            env,
        ) {
            Some(_) => self.billed_today(&account, now, platform_cap(&account.platform, env)),
            None => 0.0,
        }
    }

    fn billed_today(&mut self, account: &Account, now: f64, cap: f64) -> f64 {
        let (platform, key, after) = (&*account.platform, account.key, self.windows.utc_day(now));
        let answer = match self.compat {
            Compat::Recorded => {
                self.ask(|conn| usage::account_tokens_recorded(conn, platform, key, after))
            }
            // A host without `models` still has usage.
            Compat::Corrected => self.ask(|conn| {
                usage::account_tokens(conn, platform, key, after)
                    .or_else(|_| usage::account_tokens_alone(conn, platform, key, after))
            }),
        };
        let mut billed: f64 = match answer {
            Some(models) => models
                .iter()
                .map(|row| {
                    let multiplier =
                        token_multiplier(platform, row.budget_label.as_deref(), row.tpd_limit, cap);
                    match self.compat {
                        Compat::Corrected => billed_tokens(row.tokens, Some(cap), multiplier),
                        // A negative sum of rows is billed as it stands.
                        Compat::Recorded => (row.tokens * multiplier).ceil(),
                    }
                })
                .fold(0.0, |sum, tokens| sum + tokens),
            None => self
                .memory
                .of_account(platform, key, UsageKind::Tokens, Span::Day, after)
                .fold(0.0, |sum, (_, tally)| {
                    sum + bill(platform, tally.tokens, cap, None, None)
                }),
        };
        if !self.backlog.is_empty() {
            let refused: Vec<(String, f64)> = self
                .backlog
                .of_account(platform, key, UsageKind::Tokens, Span::Day, after)
                .map(|(model, tally)| (model.to_owned(), tally.tokens))
                .collect();
            for (model, tokens) in refused {
                billed += self.bill_model(platform, &model, tokens, cap);
            }
        }
        billed
    }

    /// What tokens of a model cost, by the model's own row.
    fn bill_model(&mut self, platform: &str, model: &str, tokens: f64, cap: f64) -> f64 {
        let row = if BILLS_BY_MULTIPLIER.contains(&platform) {
            self.ask_quietly(|conn| host::model_billing(conn, platform, model))
                .flatten()
        } else {
            None
        };
        let (label, tpd_limit) = row.unwrap_or_default();
        bill(platform, tokens, cap, label.as_deref(), tpd_limit)
    }

    /// `canUseProvider`: room under the account's daily request cap.
    pub fn can_use_provider(&mut self, account: u32, now: f64, env: Option<&str>) -> bool {
        self.request_cap_admits(AccountCap::DailyRequests, account, now, env)
    }

    /// `canUseProviderMinute`: room under the account's request cap per minute.
    pub fn can_use_provider_minute(&mut self, account: u32, now: f64, env: Option<&str>) -> bool {
        self.request_cap_admits(AccountCap::MinuteRequests, account, now, env)
    }

    fn request_cap_admits(
        &mut self,
        cap: AccountCap,
        account: u32,
        now: f64,
        env: Option<&str>,
    ) -> bool {
        let Some(owner) = self.account(account) else {
            return true;
        };
        let Some(limit) = self.cap(cap, &owner.platform, Some(owner.key), env) else {
            return true;
        };
        let used = match cap {
            AccountCap::MinuteRequests => self.minute_requests(account, now),
            AccountCap::DailyRequests | AccountCap::DailyTokens => {
                self.daily_requests(account, now)
            }
        };
        let in_flight = f64::from(self.in_flight(account, now));
        admits_request(used, in_flight, limit)
    }

    /// `canUseProviderTokens`: room under the account's daily token cap, in billed tokens.
    pub fn can_use_provider_tokens(
        &mut self,
        account: u32,
        model: &str,
        wanted: f64,
        now: f64,
        env: Option<&str>,
    ) -> bool {
        let Some(owner) = self.account(account) else {
            return true;
        };
        let Some(limit) = self.cap(
            AccountCap::DailyTokens,
            &owner.platform,
            Some(owner.key),
            env,
        ) else {
            return true;
        };
        let published = platform_cap(&owner.platform, env);
        let used = self.billed_today(&owner, now, published);
        let in_flight = self.in_flight_of_account(account, now).tokens;
        let wanted = self.tokens(wanted);
        let in_flight = self.bill_model(&owner.platform, model, in_flight, published);
        let wanted = self.bill_model(&owner.platform, model, wanted, published);
        admits_tokens(used, in_flight, wanted, limit)
    }
}

/// A model's multiplier is a matter of the platform's published cap, whatever the account's own cap is.
fn platform_cap(platform: &str, env: Option<&str>) -> f64 {
    account_cap(AccountCap::DailyTokens, platform, env, None).unwrap_or(0.0)
}

fn bill(platform: &str, tokens: f64, cap: f64, label: Option<&str>, tpd_limit: Option<f64>) -> f64 {
    billed_tokens(
        tokens,
        Some(cap),
        token_multiplier(platform, label, tpd_limit, cap),
    )
}

fn events(memory: &MemoryUsage, account: &Account, span: Span, after: f64) -> f64 {
    memory
        .of_account(
            &account.platform,
            account.key,
            UsageKind::Request,
            span,
            after,
        )
        .fold(0.0, |sum, (_, tally)| sum + tally.events)
}
