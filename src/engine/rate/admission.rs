//! Admission in one call: every gate of a request, the lease taken before anything else can look; settling and cancelling
//! it; refusals that say when to try again.

use std::rc::Rc;

use super::cooldowns::Benched;
use super::{RateEngine, Route, Sight};
use crate::core::admission::{Axis, Gate};
use crate::core::leases::LEASE_MAX_AGE;
use crate::core::time::{DAY, MINUTE, utc_midnight};
use crate::core::windows::{DayWindow, Span};
use crate::providers::caps::AccountCap;
use crate::store::sqlite::usage::{self, UsageKind};
use crate::store::sqlite::{Conn, SqlError};

/// A request that wants to be dispatched. NaN limits do not exist.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    pub route: u32,
    pub tokens: f64,
    pub rpm: f64,
    pub rpd: f64,
    pub tpm: f64,
    pub tpd: f64,
    pub concurrency: f64,
    /// Whether account-wide caps count; the platform's own, NaN = none.
    pub account: bool,
    pub cap_daily: f64,
    pub cap_minute: f64,
    pub cap_tokens: f64,
    /// Among how many replicas every limit is divided, while what holds it for all of them is away.
    pub replicas: f64,
}

/// The account-wide limits of a candidate, its key's own where the row has them; NaN = none.
#[derive(Debug, Clone, Copy)]
pub struct AccountLimits {
    pub minute: f64,
    pub daily: f64,
    pub tokens: f64,
    /// Billed tokens per token.
    pub multiplier: f64,
}

/// A gate that refuses, and when it would not.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub gate: Gate,
    pub retry_at: Option<f64>,
    pub never: bool,
    /// Of a cooldown.
    pub source: Option<String>,
}

/// What became of a lease on settling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Recorded and released.
    Recorded,
    /// Recorded; the lease had been dropped for its age.
    RecordedLate,
    /// Nothing: settled or cancelled before, or never given.
    Unknown,
}

impl RateEngine {
    /// The first candidate that passes every gate, and its lease unless `dry`.
    pub fn admit(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        now: f64,
        dry: bool,
    ) -> Option<(usize, u64)> {
        if dry {
            return self.admit_now(candidates, now, dry);
        }
        self.in_one_step(now, |engine| engine.admit_now(candidates, now, dry))
    }

    fn admit_now(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        now: f64,
        dry: bool,
    ) -> Option<(usize, u64)> {
        let sight = self.look();
        self.expire_leases(now);
        for (index, candidate) in candidates.enumerate() {
            let Some(route) = self.route(candidate.route) else {
                continue;
            };
            let mut admitted = true;
            self.visit_gates(&sight, &candidate, &route, now, &mut |engine, gate| {
                admitted = gate.passes();
                engine.metrics.check(gate.axis, admitted);
                admitted
            });
            if admitted {
                let lease = if dry {
                    0
                } else {
                    self.acquire_lease(candidate.route, candidate.tokens, now)
                };
                return Some((index, lease));
            }
        }
        None
    }

    /// Every gate of a candidate, and what refuses.
    pub fn explain(&mut self, candidate: &Candidate, now: f64) -> (Vec<Gate>, Vec<Refusal>) {
        let sight = self.look();
        self.expire_leases(now);
        let Some(route) = self.route(candidate.route) else {
            return (Vec::new(), Vec::new());
        };
        let mut gates = Vec::new();
        self.visit_gates(&sight, candidate, &route, now, &mut |_, gate| {
            gates.push(gate);
            true
        });
        let refusals = gates
            .iter()
            .filter(|gate| !gate.passes())
            .map(|gate| self.refusal(&sight, candidate, &route, *gate, now))
            .collect();
        (gates, refusals)
    }

    /// What the account of a candidate is held to, for an admission that is decided elsewhere.
    pub fn account_limits(&mut self, candidate: &Candidate) -> AccountLimits {
        let none = AccountLimits {
            minute: f64::NAN,
            daily: f64::NAN,
            tokens: f64::NAN,
            multiplier: 1.0,
        };
        let Some(route) = self.route(candidate.route).filter(|_| candidate.account) else {
            return none;
        };
        let sight = self.look();
        let cap = |engine: &mut Self, cap, published| {
            engine
                .cap_of_account(&sight, cap, route.account, known(published))
                .unwrap_or(f64::NAN)
        };
        AccountLimits {
            minute: cap(self, AccountCap::MinuteRequests, candidate.cap_minute),
            daily: cap(self, AccountCap::DailyRequests, candidate.cap_daily),
            tokens: cap(self, AccountCap::DailyTokens, candidate.cap_tokens),
            multiplier: self.multiplier_of(
                &route.platform,
                &route.model,
                known(candidate.cap_tokens).unwrap_or(0.0),
            ),
        }
    }

    /// How full the fullest axis of a candidate would be; infinite when it is benched or out of slots.
    pub fn pressure(&mut self, candidate: &Candidate, now: f64) -> f64 {
        let sight = self.look();
        self.expire_leases(now);
        let Some(route) = self.route(candidate.route) else {
            return f64::INFINITY;
        };
        let mut most = 0.0_f64;
        self.visit_gates(&sight, candidate, &route, now, &mut |_, gate| {
            let blocked = matches!(gate.axis, Axis::Cooldown | Axis::Concurrency) && !gate.passes();
            most = if blocked {
                f64::INFINITY
            } else {
                most.max(gate.pressure())
            };
            !blocked
        });
        most
    }

    /// Measures the gates that exist, in order, until `visit` says no.
    fn visit_gates(
        &mut self,
        sight: &Sight,
        candidate: &Candidate,
        route: &Route,
        now: f64,
        visit: &mut dyn FnMut(&mut Self, Gate) -> bool,
    ) {
        let asked = route.asked(candidate.route);
        let tokens = self.tokens(candidate.tokens);
        let own = self.leases.of_route(candidate.route);
        for axis in Axis::ALL {
            let requests = |limit, used| Gate {
                axis,
                limit,
                used,
                in_flight: f64::from(own.requests),
                wanted: 0.0,
            };
            let spent = |limit, used| Gate {
                axis,
                limit,
                used,
                in_flight: own.tokens,
                wanted: tokens,
            };
            let gate = match axis {
                Axis::Cooldown => {
                    let benched = self.is_benched(sight, candidate.route, route, now);
                    benched.then(|| Gate {
                        in_flight: 0.0,
                        ..requests(0.0, 0.0)
                    })
                }
                Axis::Concurrency if !candidate.concurrency.is_nan() => {
                    let in_flight = f64::from(self.leases.of_account(route.account).requests);
                    Some(Gate {
                        in_flight,
                        ..requests(candidate.concurrency, 0.0)
                    })
                }
                Axis::Rpm if !candidate.rpm.is_nan() => {
                    let used = self.requests_used(sight, &asked, Span::Minute, now);
                    Some(requests(candidate.rpm, used))
                }
                Axis::Rpd if !candidate.rpd.is_nan() => {
                    let used = self.requests_used(sight, &asked, Span::Day, now);
                    Some(requests(candidate.rpd, used))
                }
                Axis::Tpm if !candidate.tpm.is_nan() => {
                    let used = self.tokens_used(sight, &asked, Span::Minute, now);
                    Some(spent(candidate.tpm, used))
                }
                Axis::Tpd if !candidate.tpd.is_nan() => {
                    let used = self.tokens_used(sight, &asked, Span::Day, now);
                    Some(spent(candidate.tpd, used))
                }
                Axis::AccountRpm if candidate.account => self.request_cap_gate(
                    sight,
                    axis,
                    AccountCap::MinuteRequests,
                    route.account,
                    now,
                    known(candidate.cap_minute),
                ),
                Axis::AccountRpd if candidate.account => self.request_cap_gate(
                    sight,
                    axis,
                    AccountCap::DailyRequests,
                    route.account,
                    now,
                    known(candidate.cap_daily),
                ),
                Axis::AccountTpd if candidate.account => self.token_cap_gate(
                    sight,
                    route,
                    candidate.tokens,
                    now,
                    known(candidate.cap_tokens),
                ),
                _ => None,
            };
            if let Some(gate) = gate
                && !visit(self, gate.shared_by(candidate.replicas))
            {
                return;
            }
        }
    }

    fn refusal(
        &mut self,
        sight: &Sight,
        candidate: &Candidate,
        route: &Rc<Route>,
        gate: Gate,
        now: f64,
    ) -> Refusal {
        let refusal = Refusal {
            gate,
            retry_at: None,
            never: false,
            source: None,
        };
        match gate.axis {
            Axis::Cooldown => {
                let Benched { ends, source } = self.bench_of(candidate.route, now);
                // Still on at the very instant of its end.
                Refusal {
                    retry_at: ends.map(|ends| ends.floor() + 1.0),
                    source,
                    ..refusal
                }
            }
            Axis::Concurrency => Refusal {
                never: gate.never_passes(),
                ..refusal
            },
            _ if gate.never_passes() => Refusal {
                never: true,
                ..refusal
            },
            axis => {
                let exits = self.exits(sight, candidate.route, route, axis, gate, now);
                let of_account =
                    matches!(axis, Axis::AccountRpm | Axis::AccountRpd | Axis::AccountTpd);
                let expiries: Vec<(f64, f64)> = self
                    .leases
                    .iter()
                    .filter(|lease| {
                        if of_account {
                            lease.account == route.account
                        } else {
                            lease.route == candidate.route
                        }
                    })
                    .map(|lease| {
                        let held = if axis.counts_tokens() {
                            lease.tokens
                        } else {
                            1.0
                        };
                        (lease.created_at + LEASE_MAX_AGE + 1.0, held)
                    })
                    .collect();
                Refusal {
                    retry_at: gate.passes_at(&exits, &expiries),
                    ..refusal
                }
            }
        }
    }

    /// When the usage of an axis leaves its window: instant and amount, ascending.
    fn exits(
        &mut self,
        sight: &Sight,
        id: u32,
        route: &Rc<Route>,
        axis: Axis,
        gate: Gate,
        now: f64,
    ) -> Vec<(f64, f64)> {
        let by_utc_day = match axis {
            Axis::AccountRpd | Axis::AccountTpd => true,
            Axis::Rpd | Axis::Tpd => self.windows.day_window() == DayWindow::UtcDay,
            _ => false,
        };
        let (span, length) = match axis {
            Axis::Rpd | Axis::Tpd => (Span::Day, DAY),
            _ => (Span::Minute, MINUTE),
        };
        if !by_utc_day {
            let after = self.windows.after(span, now);
            let events = self.amounts(sight, id, route, axis, after, now);
            return events
                .into_iter()
                .map(|(at, amount)| (at + length, amount))
                .collect();
        }
        // Everything leaves at once, but for what a clock that stepped back left in days to come. Billed tokens have no
        // single events.
        let midnight = utc_midnight(now) + DAY;
        let later = if axis == Axis::AccountTpd {
            Vec::new()
        } else {
            self.amounts(sight, id, route, axis, self.windows.utc_day(midnight), now)
        };
        let sum = later.iter().fold(0.0, |sum, (_, amount)| sum + amount);
        let days = later
            .into_iter()
            .map(|(at, amount)| (utc_midnight(at) + DAY, amount));
        std::iter::once((midnight, gate.used - sum))
            .chain(days)
            .collect()
    }

    /// Instant and amount of the events that an axis counts after an instant, ascending.
    fn amounts(
        &mut self,
        sight: &Sight,
        id: u32,
        route: &Rc<Route>,
        axis: Axis,
        after: f64,
        now: f64,
    ) -> Vec<(f64, f64)> {
        let kind = if axis.counts_tokens() {
            UsageKind::Tokens
        } else {
            UsageKind::Request
        };
        let mut events = if matches!(axis, Axis::AccountRpm | Axis::AccountRpd) {
            self.account_request_times(sight, route.account, after, now)
        } else {
            self.route_events(sight, id, route, kind, after, now)
        };
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        if kind == UsageKind::Request {
            for (_, amount) in &mut events {
                *amount = 1.0;
            }
        }
        events
    }

    /// Instant and tokens of a route's events after an instant.
    fn route_events(
        &mut self,
        sight: &Sight,
        id: u32,
        route: &Route,
        kind: UsageKind,
        after: f64,
        now: f64,
    ) -> Vec<(f64, f64)> {
        let (name, asked) = (route.name(), route.asked(id));
        let remembered = self.recall(sight, |index, conn| {
            index.events(conn, &asked, kind, after, now)
        });
        let mut events =
            match remembered.or_else(|| self.ask(|conn| usage::events(conn, &name, kind, after))) {
                Some(events) => events,
                None => self.memory.events_of_route(&name, kind, after),
            };
        events.extend(self.backlog.events_of_route(&name, kind, after));
        events
    }

    fn account_request_times(
        &mut self,
        sight: &Sight,
        account: u32,
        after: f64,
        now: f64,
    ) -> Vec<(f64, f64)> {
        let Some(owner) = self.account(account) else {
            return Vec::new();
        };
        let (platform, key) = (&*owner.platform, owner.key);
        if let Some(routes) = self.account_routes(sight, (account, &owner), after, now) {
            let mut events = Vec::new();
            for id in routes.iter().copied() {
                if let Some(route) = self.route(id) {
                    events.extend(self.route_events(
                        sight,
                        id,
                        &route,
                        UsageKind::Request,
                        after,
                        now,
                    ));
                }
            }
            return events;
        }
        let mut events =
            match self.ask(|conn| usage::account_request_times(conn, platform, key, after)) {
                Some(times) => times,
                None => self.memory.request_times_of_account(platform, key, after),
            };
        events.extend(self.backlog.request_times_of_account(platform, key, after));
        events
    }

    /// Records what a lease was used for and releases it, as one unit.
    pub fn settle(&mut self, lease: u64, tokens: Option<f64>, requests: u32, now: f64) -> Settled {
        self.in_one_step(now, |engine| {
            engine.settle_now(lease, tokens, requests, now)
        })
    }

    fn settle_now(&mut self, lease: u64, tokens: Option<f64>, requests: u32, now: f64) -> Settled {
        self.expire_leases(now);
        let (taken, outcome) = match self.give_lease_back(lease) {
            Some(taken) => (taken, Settled::Recorded),
            None => match self.leases.take_expired(lease) {
                Some(taken) => (taken, Settled::RecordedLate),
                None => return Settled::Unknown,
            },
        };
        let Some(route) = self.route(taken.route) else {
            return Settled::Unknown;
        };
        let tokens = tokens.map_or(taken.tokens, |tokens| self.tokens(tokens));
        let mut rows = vec![(UsageKind::Request, 0.0); requests as usize];
        if tokens != 0.0 {
            rows.push((UsageKind::Tokens, tokens));
        }
        self.record_rows(taken.route, &route, &rows, now);
        if requests > 0 {
            self.ladder.forget(&route.name());
            self.unknown_limit.forget(&route.name());
        }
        outcome
    }

    /// Gives a lease back unused; whether there was one.
    pub fn cancel(&mut self, lease: u64) -> bool {
        self.give_lease_back(lease).is_some() || self.leases.take_expired(lease).is_some()
    }

    fn record_rows(&mut self, id: u32, route: &Route, rows: &[(UsageKind, f64)], now: f64) {
        let name = route.name();
        match rows {
            [] => {}
            [(kind, tokens)] => self.record(id, route, *kind, *tokens, now),
            _ => {
                let sight = self.look();
                let written = self.write(|conn: &Conn| {
                    conn.write_transaction(|conn| {
                        rows.iter().try_for_each(|(kind, tokens)| {
                            usage::insert(conn, &name, *kind, *tokens, now)
                        })?;
                        Ok::<(), SqlError>(())
                    })
                });
                self.recorded(&sight, id, route, rows, written, now);
            }
        }
    }
}

fn known(limit: f64) -> Option<f64> {
    (!limit.is_nan()).then_some(limit)
}
