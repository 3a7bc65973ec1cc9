//! Account-wide caps: a platform and key over all models.

use std::rc::Rc;

use super::memory::MemoryUsage;
use super::{Account, RateEngine, Route, Sight};
use crate::core::Compat;
use crate::core::admission::{Axis, Gate};
use crate::core::billing::{billed_tokens, token_multiplier};
use crate::core::env_caps::account_cap;
use crate::core::windows::Span;
use crate::providers::caps::{AccountCap, BILLS_BY_MULTIPLIER};
use crate::store::sqlite::usage::UsageKind;
use crate::store::sqlite::{SqlErrorKind, host, usage};

impl RateEngine {
    /// The cap of a key, given the platform's.
    pub fn cap(
        &mut self,
        cap: AccountCap,
        platform: &str,
        key: f64,
        published: Option<f64>,
    ) -> Option<f64> {
        let id = self.routes.account(platform, key);
        let Some(account) = self.account(id) else {
            return published;
        };
        let sight = self.look();
        self.cap_of(&sight, cap, (id, &account), published)
    }

    /// The cap of an account: its key row's own, else the platform's.
    fn cap_of(
        &mut self,
        sight: &Sight,
        cap: AccountCap,
        (id, account): (u32, &Account),
        published: Option<f64>,
    ) -> Option<f64> {
        match self.own_cap(sight, id, account.key, cap) {
            Some(own) => account_cap(cap, &account.platform, None, Some(own)),
            None => published,
        }
    }

    /// The cap of an account.
    pub(super) fn cap_of_account(
        &mut self,
        sight: &Sight,
        cap: AccountCap,
        account: u32,
        published: Option<f64>,
    ) -> Option<f64> {
        let owner = self.account(account)?;
        self.cap_of(sight, cap, (account, &owner), published)
    }

    /// What the key's own row says. A host without such columns, or without the table, says nothing.
    fn own_cap(&mut self, sight: &Sight, account: u32, key: f64, cap: AccountCap) -> Option<f64> {
        self.recall(sight, |index, conn| {
            index.key_cap(conn, account, cap as u8, |conn| {
                match host::key_cap(conn, key, cap) {
                    Ok(own) => Some(own),
                    Err(error) if error.kind() == SqlErrorKind::MissingTable => Some(None),
                    // A lock or an I/O error passes: not to be remembered.
                    Err(_) => None,
                }
            })
        })
        .or_else(|| self.ask_quietly(|conn| host::key_cap(conn, key, cap)))
        .flatten()
    }

    fn account_requests(
        &mut self,
        sight: &Sight,
        (id, account): (u32, &Account),
        span: Span,
        after: f64,
        now: f64,
    ) -> f64 {
        let (platform, key) = (&*account.platform, account.key);
        let remembered = self
            .account_routes(sight, (id, account), after, now)
            .and_then(|routes| {
                let index = self.index.as_ref()?;
                Some(routes.iter().fold(0.0, |sum, route| {
                    sum + index.route_requests(*route, after, span)
                }))
            });
        let used = match remembered
            .or_else(|| self.ask(|conn| usage::account_requests(conn, platform, key, after)))
        {
            Some(count) => count,
            None => events(&self.memory, account, span, after),
        };
        used + events(&self.backlog, account, span, after)
    }

    /// The routes of an account, where memory knows them all.
    pub(super) fn account_routes(
        &mut self,
        sight: &Sight,
        (id, account): (u32, &Account),
        after: f64,
        now: f64,
    ) -> Option<Rc<Vec<u32>>> {
        let (index, conn) = (self.index.as_mut()?, sight.0.as_ref()?);
        let (platform, key) = (&*account.platform, account.key);
        let routes = &mut self.routes;
        index.account_routes(conn, id, (platform, key), after, now, |model| {
            routes.route(platform, model, key)
        })
    }

    /// `providerDailyRequestCount`: since midnight UTC.
    pub fn daily_requests(&mut self, account: u32, now: f64) -> f64 {
        self.requests_of_account(account, Span::Day, now)
    }

    /// `providerMinuteRequestCount`: the last minute.
    pub fn minute_requests(&mut self, account: u32, now: f64) -> f64 {
        self.requests_of_account(account, Span::Minute, now)
    }

    fn requests_of_account(&mut self, account: u32, span: Span, now: f64) -> f64 {
        let Some(owner) = self.account(account) else {
            return 0.0;
        };
        let sight = self.look();
        self.account_requests(
            &sight,
            (account, &owner),
            span,
            self.account_window(span, now),
            now,
        )
    }

    /// The day of an account is the UTC day, whatever the day window of its routes.
    fn account_window(&self, span: Span, now: f64) -> f64 {
        match span {
            Span::Minute => self.windows.minute(now),
            Span::Day => self.windows.utc_day(now),
        }
    }

    /// `providerDailyTokenCount`: billed tokens since midnight UTC, rounded up per model. Without a cap nothing is
    /// billed, so the count is 0.
    pub fn daily_tokens(&mut self, account: u32, now: f64, published: Option<f64>) -> f64 {
        let Some(owner) = self.account(account) else {
            return 0.0;
        };
        let sight = self.look();
        match self.cap_of(
            &sight,
            AccountCap::DailyTokens,
            (account, &owner),
            published,
        ) {
            Some(_) => self.billed_today(&sight, (account, &owner), now, published.unwrap_or(0.0)),
            None => 0.0,
        }
    }

    /// `cap`: the platform's, on which a model's multiplier depends whatever the account's own cap is.
    fn billed_today(
        &mut self,
        sight: &Sight,
        (id, account): (u32, &Account),
        now: f64,
        cap: f64,
    ) -> f64 {
        let remembered = self.billed_from_memory(sight, (id, account), now, cap);
        if let Some(billed) = remembered {
            return billed;
        }
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

    /// The corrected sum, while nothing of it has to come from SQL.
    fn billed_from_memory(
        &mut self,
        sight: &Sight,
        (id, account): (u32, &Account),
        now: f64,
        cap: f64,
    ) -> Option<f64> {
        // The recorded sum depends on the host's `models` rows in a way that only the join shows.
        if self.compat.is_recorded() || !self.backlog.is_empty() {
            return None;
        }
        let after = self.windows.utc_day(now);
        let routes = self.account_routes(sight, (id, account), after, now)?;
        let platform = &*account.platform;
        Some(routes.iter().fold(0.0, |sum, route| {
            let tokens = self
                .index
                .as_ref()
                .map_or(0.0, |index| index.route_tokens(*route, after, Span::Day));
            let model = self.route(*route).map(|route| Rc::clone(&route.model));
            sum + self.bill_model(platform, model.as_deref().unwrap_or_default(), tokens, cap)
        }))
    }

    /// What tokens of a model cost, by the model's own row.
    fn bill_model(&mut self, platform: &str, model: &str, tokens: f64, cap: f64) -> f64 {
        billed_tokens(tokens, Some(cap), self.multiplier_of(platform, model, cap))
    }

    /// Billed tokens per token of a model, by the model's own row.
    pub(super) fn multiplier_of(&mut self, platform: &str, model: &str, cap: f64) -> f64 {
        let row = if BILLS_BY_MULTIPLIER.contains(&platform) {
            self.ask_quietly(|conn| host::model_billing(conn, platform, model))
                .flatten()
        } else {
            None
        };
        let (label, tpd_limit) = row.unwrap_or_default();
        token_multiplier(platform, label.as_deref(), tpd_limit, cap)
    }

    /// `canUseProvider` and `canUseProviderMinute`: room under the account's request cap.
    pub fn request_cap_admits(
        &mut self,
        cap: AccountCap,
        account: u32,
        now: f64,
        published: Option<f64>,
    ) -> bool {
        let axis = if cap == AccountCap::MinuteRequests {
            Axis::AccountRpm
        } else {
            Axis::AccountRpd
        };
        let sight = self.look();
        let gate = self.request_cap_gate(&sight, axis, cap, account, now, published);
        self.judge(gate)
    }

    /// The gate of a request cap; `None` without one: leases are then not even looked at.
    pub(super) fn request_cap_gate(
        &mut self,
        sight: &Sight,
        axis: Axis,
        cap: AccountCap,
        account: u32,
        now: f64,
        published: Option<f64>,
    ) -> Option<Gate> {
        let owner = self.account(account)?;
        let limit = self.cap_of(sight, cap, (account, &owner), published)?;
        let span = if cap == AccountCap::MinuteRequests {
            Span::Minute
        } else {
            Span::Day
        };
        let used = self.account_requests(
            sight,
            (account, &owner),
            span,
            self.account_window(span, now),
            now,
        );
        let in_flight = f64::from(self.in_flight_of_account(account, now).requests);
        Some(Gate {
            axis,
            limit,
            used,
            in_flight,
            wanted: 0.0,
        })
    }

    /// `canUseProviderTokens`: room under the account's daily token cap, in billed tokens.
    pub fn can_use_provider_tokens(
        &mut self,
        route: u32,
        wanted: f64,
        now: f64,
        published: Option<f64>,
    ) -> bool {
        let Some(route) = self.route(route) else {
            return true;
        };
        let sight = self.look();
        let gate = self.token_cap_gate(&sight, &route, wanted, now, published);
        self.judge(gate)
    }

    /// The gate of the token cap; `None` without one: leases are then not even looked at.
    pub(super) fn token_cap_gate(
        &mut self,
        sight: &Sight,
        route: &Route,
        wanted: f64,
        now: f64,
        published: Option<f64>,
    ) -> Option<Gate> {
        let owner = self.account(route.account)?;
        let account = (route.account, &*owner);
        let limit = self.cap_of(sight, AccountCap::DailyTokens, account, published)?;
        let published = published.unwrap_or(0.0);
        let used = self.billed_today(sight, account, now, published);
        let in_flight = self.in_flight_of_account(route.account, now).tokens;
        let wanted = self.tokens(wanted);
        let in_flight = self.bill_model(&owner.platform, &route.model, in_flight, published);
        let wanted = self.bill_model(&owner.platform, &route.model, wanted, published);
        Some(Gate {
            axis: Axis::AccountTpd,
            limit,
            used,
            in_flight,
            wanted,
        })
    }
}

fn bill(platform: &str, tokens: f64, cap: f64, label: Option<&str>, tpd_limit: Option<f64>) -> f64 {
    billed_tokens(
        tokens,
        Some(cap),
        token_multiplier(platform, label, tpd_limit, cap),
    )
}

fn events(memory: &MemoryUsage, account: &Account, span: Span, after: f64) -> f64 {
    if memory.is_empty() {
        return 0.0;
    }
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
