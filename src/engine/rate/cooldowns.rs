//! Benches: set, asked, cleared, decided. The table is the truth while it answers.

use serde_json::json;

use super::{RateEngine, Route, Sight};
use crate::core::Compat;
use crate::core::cooldown::{
    self, Bench, LOCAL_ENDPOINT, MODEL_FORBIDDEN, PAYMENT_REQUIRED, Source, TRANSIENT,
    UNKNOWN_LIMIT_MAX, UNKNOWN_LIMIT_WINDOW, ladder_step, unknown_limit_is_a_pattern,
};
use crate::core::error_text::{
    is_model_forbidden, is_payment_error, is_real_429, says_day_is_spent,
};
use crate::core::learning::{ProviderLimit, parse_provider_limit};
use crate::core::route::RouteName;
use crate::core::time::{DAY, utc_midnight};
use crate::core::url_locality::is_loopback_or_private_url;
use crate::core::windows::Span;
use crate::store::sqlite::cooldowns::{self as table, CooldownRow};
use crate::store::sqlite::index::RouteRef;
use crate::store::sqlite::{Conn, SqlError, host};

/// A bench as a refusal shows it.
#[derive(Debug, Clone, Default)]
pub struct Benched {
    pub ends: Option<f64>,
    pub source: Option<String>,
}

/// What a router knows of a failed request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failure<'a> {
    pub status: Option<f64>,
    pub message: &'a str,
    pub retry_after: Option<f64>,
}

impl RateEngine {
    /// `setCooldown`. `source` is a text because the recorded behaviour stores any.
    pub fn set_cooldown(&mut self, handle: u32, duration: f64, source: &str, now: f64) {
        let Some(route) = self.route(handle) else {
            return;
        };
        let name = route.name();
        let expires_at = now + duration;
        let sight = self.look();
        let stored = self
            .write(|conn| table::upsert(conn, &name, expires_at, source, now))
            .is_ok();
        if stored {
            self.bench_changed(&sight, handle, Some(expires_at), 1);
        }
        self.cooldowns.set(&name, expires_at, !stored);
        self.metrics.cooldown(source);
        self.link.emit(
            "cooldown_set",
            json!({
                "platform": name.platform, "modelId": name.model, "keyId": name.key,
                "expiresAtMs": expires_at, "source": source,
            }),
        );
    }

    /// Tells the index of a bench of ours that was written right after a look.
    fn bench_changed(&mut self, sight: &Sight, handle: u32, ends: Option<f64>, rows: u64) {
        self.recall(sight, |index, conn| {
            index.bench_changed(conn, handle, ends, rows);
            Some(())
        });
    }

    /// `isOnCooldown`.
    pub fn is_on_cooldown(&mut self, handle: u32, now: f64) -> bool {
        let Some(route) = self.route(handle) else {
            return false;
        };
        let sight = self.look();
        self.is_benched(&sight, handle, &route, now)
    }

    pub(super) fn is_benched(
        &mut self,
        sight: &Sight,
        handle: u32,
        route: &Route,
        now: f64,
    ) -> bool {
        let name = route.name();
        let remembered = self.recall(sight, |index, conn| {
            index.bench(conn, handle, |conn| table::expiry(conn, &name).ok())
        });
        // The common answer: no row, nothing in memory.
        if remembered == Some(None) && self.cooldowns.is_empty() {
            return false;
        }
        self.is_benched_by(handle, &name, remembered, now)
    }

    /// `row`: when the bench's row ends, where memory knows; otherwise the table is asked.
    #[expect(
        clippy::option_option,
        reason = "not known, and known to have no row, are different answers"
    )]
    fn is_benched_by(
        &mut self,
        handle: u32,
        name: &RouteName<'_>,
        row: Option<Option<f64>>,
        now: f64,
    ) -> bool {
        let corrected = self.compat == Compat::Corrected;
        match row.or_else(|| self.ask(|conn| table::expiry(conn, name))) {
            Some(Some(expires_at)) if now > expires_at => {
                self.delete_bench(handle, name);
                if corrected {
                    self.cooldowns.forget_copy(name);
                    self.cooldowns.benches_away(name, now)
                } else {
                    self.cooldowns.remove(name);
                    false
                }
            }
            Some(Some(expires_at)) => {
                if !corrected || !self.cooldowns.benches_away(name, now) {
                    self.cooldowns.copy(handle, name, expires_at);
                }
                true
            }
            // The row was deleted or rolled back by the host: it no longer benches.
            Some(None) if corrected => {
                self.cooldowns.forget_copy(name);
                self.cooldowns.benches_away(name, now)
            }
            Some(None) | None => {
                let benched = self.cooldowns.benches(name, now);
                if !benched {
                    self.cooldowns.remove(name);
                }
                benched
            }
        }
    }

    /// When the bench of a route ends and where it comes from.
    pub(super) fn bench_of(&mut self, handle: u32, now: f64) -> Benched {
        let Some(route) = self.route(handle) else {
            return Benched::default();
        };
        let name = route.name();
        let row = self
            .ask(|conn| table::get(conn, &name))
            .flatten()
            .filter(|row| row.expires_at >= now);
        let in_memory = self.cooldowns.ends(&name);
        match row {
            // One that was set while the database was away goes on after the row's end.
            Some(row)
                if self.cooldowns.benches_away(&name, row.expires_at)
                    && in_memory > Some(row.expires_at) =>
            {
                Benched {
                    ends: in_memory,
                    source: None,
                }
            }
            Some(row) => Benched {
                ends: Some(row.expires_at),
                source: Some(row.source),
            },
            None => Benched {
                ends: in_memory,
                source: None,
            },
        }
    }

    fn delete_bench(&mut self, handle: u32, name: &RouteName<'_>) {
        let sight = self.look();
        if let Ok(rows) = self.write(|conn| table::delete(conn, name)) {
            self.bench_changed(&sight, handle, None, rows);
        }
    }

    /// Benches of keys that are still on, soonest first over all of them.
    pub fn active_cooldowns(&mut self, keys: &[f64], now: f64) -> Vec<CooldownRow> {
        let mut rows: Vec<CooldownRow> = keys
            .iter()
            .flat_map(|key| {
                self.ask(|conn| table::active_of_key(conn, *key, now))
                    .unwrap_or_default()
            })
            .collect();
        rows.sort_by(|a, b| a.expires_at.total_cmp(&b.expires_at));
        rows
    }

    /// `clearCooldownsForKey`; the caller has checked that the key is an integer.
    pub fn clear_key(&mut self, key: f64) -> f64 {
        let answer = self.write(|conn| table::delete_key(conn, key));
        let (gone, away) = self.cooldowns.remove_key(key);
        let in_memory = match (self.compat, &answer) {
            // The table speaks for everything that was set while it was there.
            (Compat::Corrected, Ok(_)) => away,
            _ => gone.len(),
        };
        match self.compat {
            Compat::Recorded => {
                for name in &gone {
                    self.ladder.forget_memory_key(name);
                }
            }
            Compat::Corrected => {
                self.ladder.forget_key(key);
                self.unknown_limit.forget_key(key);
            }
        }
        #[allow(clippy::cast_precision_loss)] // far fewer than 2^52 rows
        let most = answer.unwrap_or(0).max(in_memory as u64) as f64;
        most
    }

    /// `clearCooldownEarly`: one route, its ladder history stays.
    pub fn clear_early(&mut self, handle: u32) {
        let Some(route) = self.route(handle) else {
            return;
        };
        let name = route.name();
        self.delete_bench(handle, &name);
        self.cooldowns.remove(&name);
    }

    /// As [`Self::clear_early`], but only while the bench is a guess; whether it went.
    pub(super) fn clear_if_heuristic(&mut self, handle: u32) -> bool {
        let Some(route) = self.route(handle) else {
            return false;
        };
        let name = route.name();
        let sight = self.look();
        let rows = self
            .write(|conn| table::delete_heuristic(conn, &name))
            .unwrap_or(0);
        if rows > 0 {
            self.bench_changed(&sight, handle, None, rows);
            self.cooldowns.remove(&name);
        }
        rows > 0
    }

    /// `cleanupExpiredCooldowns`; rows deleted.
    pub fn cleanup_cooldowns(&mut self, now: f64) -> u64 {
        self.cooldowns.remove_expired(now);
        self.write(|conn| table::delete_expired(conn, now))
            .unwrap_or(0)
    }

    pub fn probeable(&mut self, now: f64) -> Vec<CooldownRow> {
        self.ask(|conn| table::probeable(conn, now))
            .unwrap_or_default()
    }

    pub fn soonest_expiry(&mut self, now: f64) -> Option<f64> {
        self.ask(|conn| table::soonest_expiry(conn, now)).flatten()
    }

    /// `getNextCooldownDuration`: a hit on the ladder.
    pub fn next_ladder_step(&mut self, route: u32, now: f64) -> f64 {
        self.route(route).map_or(cooldown::LADDER[0], |route| {
            ladder_step(self.ladder.hit(&route.name(), now))
        })
    }

    /// `recentHitCount`: refusals of an unknown limit.
    #[must_use]
    pub fn recent_hits(&self, route: u32, now: f64, span: f64) -> usize {
        self.routes.get(route).map_or(0, |route| {
            self.unknown_limit.count(&route.name(), now, span)
        })
    }

    /// `getCooldownDecisionForLimit`.
    pub fn decide(
        &mut self,
        route: u32,
        rpd: f64,
        tpd: f64,
        retry_after: Option<f64>,
        quota_signal: bool,
        now: f64,
    ) -> Bench {
        let Some(route_ref) = self.route(route) else {
            return cooldown::settle(TRANSIENT, retry_after);
        };
        if self.is_local_endpoint(route_ref.key) {
            return Bench {
                duration: LOCAL_ENDPOINT,
                source: Source::Heuristic,
            };
        }
        let guess = if self.day_is_spent(&route_ref.asked(route), rpd, tpd, now) {
            self.next_ladder_step(route, now)
        } else if rpd.is_nan() && tpd.is_nan() && quota_signal {
            let name = route_ref.name();
            self.unknown_limit.hit(&name, now);
            if unknown_limit_is_a_pattern(self.unknown_limit.count(
                &name,
                now,
                UNKNOWN_LIMIT_WINDOW,
            )) {
                self.next_ladder_step(route, now).min(UNKNOWN_LIMIT_MAX)
            } else {
                TRANSIENT
            }
        } else {
            TRANSIENT
        };
        cooldown::settle(guess, retry_after)
    }

    /// Leases do not count: a request in flight has not been refused.
    fn day_is_spent(&mut self, route: &RouteRef<'_>, rpd: f64, tpd: f64, now: f64) -> bool {
        let sight = self.look();
        (!rpd.is_nan() && self.requests_used(&sight, route, Span::Day, now) >= rpd)
            || (!tpd.is_nan() && self.tokens_used(&sight, route, Span::Day, now) >= tpd)
    }

    /// `cooldownDecisionForError`: one call for a router's error path.
    pub fn decide_for_error(
        &mut self,
        route: u32,
        rpd: f64,
        tpd: f64,
        failure: Failure<'_>,
        now: f64,
    ) -> Bench {
        let Failure {
            status,
            message,
            retry_after,
        } = failure;
        if is_payment_error(status, message) {
            return Bench {
                duration: PAYMENT_REQUIRED,
                source: Source::Credit,
            };
        }
        if is_model_forbidden(status, message) {
            return Bench {
                duration: MODEL_FORBIDDEN,
                source: Source::Tier,
            };
        }
        if says_day_is_spent(message) {
            let until_midnight = utc_midnight(now) + DAY - now;
            let duration = retry_after
                .filter(|asked| *asked > 0.0)
                .map_or(until_midnight, |asked| asked.min(DAY));
            return Bench {
                duration,
                source: Source::Authoritative,
            };
        }
        self.decide(
            route,
            rpd,
            tpd,
            retry_after,
            is_real_429(status, message),
            now,
        )
    }

    /// `isLocalEndpointKey`: a verdict is kept for the process, a database that does not answer leaves none.
    pub fn is_local_endpoint(&mut self, key: f64) -> bool {
        let bits = (key + 0.0).to_bits();
        if let Some(known) = self.local_keys.get(&bits) {
            return *known;
        }
        let Some(url) = self.ask_quietly(|conn| host::base_url(conn, key)) else {
            return false;
        };
        let local = url.as_deref().is_some_and(is_loopback_or_private_url);
        self.local_keys.insert(bits, local);
        local
    }

    pub fn forget_key_locality(&mut self) {
        self.local_keys.clear();
    }

    /// `learnLimitFromError`: writes a limit that the text states, where none is known or a larger one.
    pub fn learn_limit(&mut self, model: f64, message: &str) -> Option<ProviderLimit> {
        let learned = parse_provider_limit(message, self.compat)?;
        let changed =
            self.ask_quietly(|conn| host::lower_limit(conn, model, learned.kind, learned.limit))?;
        changed.then(|| {
            self.link.emit(
                "limit_learned",
                json!({ "modelDbId": model, "kind": learned.kind.as_str(), "limit": learned.limit }),
            );
            learned
        })
    }

    /// As `ask`, for tables of the host that may not be there: their absence does not mean that the database is away.
    pub(super) fn ask_quietly<T>(
        &mut self,
        work: impl FnOnce(&Conn) -> Result<T, SqlError>,
    ) -> Option<T> {
        work(&self.link.conn()?).ok()
    }
}
