//! Usage: what counts in the windows, the gates of a route, leases, records.

use super::{RateEngine, Route, Sight, means_later};
use crate::core::Compat;
use crate::core::admission::{Axis, Gate};
use crate::core::gates::clamp_tokens;
use crate::core::leases::{Lease, Load};
use crate::core::time::{DAY, MINUTE};
use crate::core::windows::Span;
use crate::store::sqlite::SqlError;
use crate::store::sqlite::index::RouteRef;
use crate::store::sqlite::usage::{self, UsageKind};

/// What a route used in the four windows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    pub rpm: f64,
    pub rpd: f64,
    pub tpm: f64,
    pub tpd: f64,
}

impl RateEngine {
    pub(super) fn requests_used(
        &mut self,
        sight: &Sight,
        route: &RouteRef<'_>,
        span: Span,
        now: f64,
    ) -> f64 {
        let (name, after) = (route.name, self.windows.after(span, now));
        let remembered = self.recall(sight, |index, conn| {
            index.requests(conn, route, after, span, now)
        });
        let used = match remembered.or_else(|| self.ask(|conn| usage::requests(conn, &name, after)))
        {
            Some(count) => count,
            None => {
                self.memory
                    .of_route(&name, UsageKind::Request, span, after, now)
                    .events
            }
        };
        used + self
            .backlog
            .of_route(&name, UsageKind::Request, span, after, now)
            .events
    }

    pub(super) fn tokens_used(
        &mut self,
        sight: &Sight,
        route: &RouteRef<'_>,
        span: Span,
        now: f64,
    ) -> f64 {
        let (name, after) = (route.name, self.windows.after(span, now));
        let read = match self.compat {
            Compat::Corrected => usage::tokens_saturating,
            Compat::Recorded => usage::tokens,
        };
        let remembered = self.recall(sight, |index, conn| {
            index.tokens(conn, route, after, span, now)
        });
        let used = match remembered.or_else(|| self.ask(|conn| read(conn, &name, after))) {
            Some(sum) => sum,
            None => {
                self.memory
                    .of_route(&name, UsageKind::Tokens, span, after, now)
                    .tokens
            }
        };
        used + self
            .backlog
            .of_route(&name, UsageKind::Tokens, span, after, now)
            .tokens
    }

    /// `canMakeRequest`: room for one more request in the minute and the day.
    pub fn can_make_request(&mut self, route: u32, now: f64, rpm: f64, rpd: f64) -> bool {
        let Some(route_ref) = self.route(route) else {
            return true;
        };
        let (sight, asked) = (self.look(), route_ref.asked(route));
        let in_flight = f64::from(self.in_flight_of_route(route, now).requests);
        [(Axis::Rpm, Span::Minute, rpm), (Axis::Rpd, Span::Day, rpd)]
            .into_iter()
            .all(|(axis, span, limit)| {
                let gate = (!limit.is_nan()).then(|| {
                    let used = self.requests_used(&sight, &asked, span, now);
                    Gate {
                        axis,
                        limit,
                        used,
                        in_flight,
                        wanted: 0.0,
                    }
                });
                self.judge(gate)
            })
    }

    /// `canUseTokens`: room for so many more tokens in the minute and the day.
    pub fn can_use_tokens(
        &mut self,
        route: u32,
        now: f64,
        wanted: f64,
        tpm: f64,
        tpd: f64,
    ) -> bool {
        let Some(route_ref) = self.route(route) else {
            return true;
        };
        let wanted = self.tokens(wanted);
        let (sight, asked) = (self.look(), route_ref.asked(route));
        let in_flight = self.in_flight_of_route(route, now).tokens;
        [(Axis::Tpm, Span::Minute, tpm), (Axis::Tpd, Span::Day, tpd)]
            .into_iter()
            .all(|(axis, span, limit)| {
                let gate = (!limit.is_nan()).then(|| {
                    let used = self.tokens_used(&sight, &asked, span, now);
                    Gate {
                        axis,
                        limit,
                        used,
                        in_flight,
                        wanted,
                    }
                });
                self.judge(gate)
            })
    }

    /// The verdict of a gate, counted; one that does not exist stops nothing and is not counted.
    pub(super) fn judge(&mut self, gate: Option<Gate>) -> bool {
        gate.is_none_or(|gate| {
            let passes = gate.passes();
            self.metrics.check(gate.axis, passes);
            passes
        })
    }

    /// What `getRateLimitStatus` shows.
    pub fn used(&mut self, route: u32, now: f64) -> Used {
        let Some(route_ref) = self.route(route) else {
            return Used::default();
        };
        let (sight, asked) = (self.look(), route_ref.asked(route));
        Used {
            rpm: self.requests_used(&sight, &asked, Span::Minute, now),
            rpd: self.requests_used(&sight, &asked, Span::Day, now),
            tpm: self.tokens_used(&sight, &asked, Span::Minute, now),
            // The recorded status has no such line.
            tpd: if self.compat.is_recorded() {
                0.0
            } else {
                self.tokens_used(&sight, &asked, Span::Day, now)
            },
        }
    }

    fn in_flight_of_route(&mut self, route: u32, now: f64) -> Load {
        self.expire_leases(now);
        self.leases.of_route(route)
    }

    pub(super) fn in_flight_of_account(&mut self, account: u32, now: f64) -> Load {
        self.expire_leases(now);
        self.leases.of_account(account)
    }

    pub fn acquire_lease(&mut self, route: u32, tokens: f64, now: f64) -> u64 {
        let account = self.route(route).map_or(u32::MAX, |route| route.account);
        let tokens = self.tokens(tokens);
        self.prepare_lease_file();
        self.take_lease(Lease {
            route,
            account,
            tokens,
            created_at: now,
        })
    }

    pub fn release_lease(&mut self, id: u64) {
        self.give_lease_back(id);
    }

    pub fn reset_leases(&mut self) {
        for id in self.leases.own_ids() {
            self.give_lease_back(id);
        }
        self.leases.clear();
    }

    /// `inFlightForKey`.
    pub fn in_flight(&mut self, account: u32, now: f64) -> u32 {
        self.in_flight_of_account(account, now).requests
    }

    pub fn record_request(&mut self, route: u32, now: f64) {
        let Some(route_ref) = self.route(route) else {
            return;
        };
        self.record(route, &route_ref, UsageKind::Request, 0.0, now);
        // A served request proves that the quota is not spent.
        self.ladder.forget(&route_ref.name());
        self.unknown_limit.forget(&route_ref.name());
    }

    pub fn record_tokens(&mut self, route: u32, tokens: f64, now: f64) {
        let Some(route_ref) = self.route(route) else {
            return;
        };
        let tokens = self.tokens(tokens);
        self.record(route, &route_ref, UsageKind::Tokens, tokens, now);
    }

    /// A token count as the rule book takes it.
    pub(super) fn tokens(&self, tokens: f64) -> f64 {
        match self.compat {
            Compat::Corrected => clamp_tokens(tokens),
            Compat::Recorded => tokens,
        }
    }

    pub(super) fn record(
        &mut self,
        handle: u32,
        route: &Route,
        kind: UsageKind,
        tokens: f64,
        now: f64,
    ) {
        let name = route.name();
        let sight = self.look();
        let written = self.write(|conn| usage::insert(conn, &name, kind, tokens, now));
        self.recorded(&sight, handle, route, &[(kind, tokens)], written, now);
    }

    /// What follows from rows that were written right after a look, or refused.
    pub(super) fn recorded(
        &mut self,
        sight: &Sight,
        handle: u32,
        route: &Route,
        rows: &[(UsageKind, f64)],
        written: Result<(), SqlError>,
        now: f64,
    ) {
        match written {
            Ok(()) => {
                self.recall(sight, |index, conn| {
                    index.inserted(conn, &route.asked(handle), rows, now);
                    Some(())
                });
                self.write_back(now);
                self.prune_if_due(now);
            }
            Err(error) => {
                let later =
                    !self.compat.is_recorded() && (means_later(&error) || self.link.is_refused());
                let keep = if later {
                    &mut self.backlog
                } else {
                    &mut self.memory
                };
                for (kind, tokens) in rows {
                    keep.push(&route.name(), *kind, *tokens, now);
                }
            }
        }
    }

    /// Writes the events that the connection refused earlier, as one unit. Not inside a transaction of the host: its
    /// rollback would take them along. What retention would delete at once is left out.
    fn write_back(&mut self, now: f64) {
        if self.backlog.is_empty() || !self.link.conn().is_some_and(|conn| conn.autocommit()) {
            return;
        }
        let Some(conn) = self.link.conn() else { return };
        let written = conn.write_transaction(|conn| {
            let events = self.backlog.events();
            for (route, kind, event) in events.filter(|(_, _, event)| event.at > now - DAY) {
                usage::insert(conn, &route, kind, event.tokens, event.at)?;
            }
            Ok::<(), SqlError>(())
        });
        if written.is_ok() {
            self.backlog.clear();
        }
    }

    /// At most once a minute, and again when the clock stepped back.
    fn prune_if_due(&mut self, now: f64) {
        if self
            .last_prune
            .is_some_and(|last| now >= last && now - last < MINUTE)
        {
            return;
        }
        self.last_prune = Some(now);
        let sight = self.look();
        if let Ok(rows) = self.write(|conn| usage::prune(conn, now - DAY)) {
            self.recall(&sight, |index, conn| {
                index.pruned(conn, now - DAY, rows, now);
                Some(())
            });
        }
        self.unknown_limit.sweep(now);
        self.ladder.sweep(now);
    }
}
