//! The window snapshot and the bookkeeping of the probe.

use rustc_hash::FxHashSet;
use serde_json::json;

use super::RateEngine;
use crate::core::Compat;
use crate::core::model_scope::ModelScope;
use crate::core::probe::{Turn, is_ripe};
use crate::core::snapshot::{Axes, Snapshot, SnapshotKey};
use crate::core::windows::Span;
use crate::store::sqlite::cooldowns::{self as table, CooldownRow};
use crate::store::sqlite::host;
use crate::store::sqlite::usage::{self, RouteUsage};

/// A key with ripe benches.
#[derive(Debug, Clone, PartialEq)]
pub struct RipeKey {
    pub key: f64,
    pub benches: Vec<CooldownRow>,
}

impl RateEngine {
    /// `modelWindowUsedFraction`.
    pub fn window_used_fraction(
        &mut self,
        platform: &str,
        model: &str,
        key: Option<f64>,
        limits: Axes,
        now: f64,
    ) -> Option<f64> {
        if limits.iter().all(|limit| limit.is_nan()) {
            return None;
        }
        let generation = self.link.generation();
        if !self
            .snapshot
            .as_ref()
            .is_some_and(|snapshot| snapshot.serves(generation, now))
        {
            self.snapshot = self.take_snapshot(generation, now);
        }
        self.snapshot
            .as_ref()?
            .used_fraction(platform, model, key, limits, self.compat)
    }

    fn take_snapshot(&mut self, generation: u64, now: f64) -> Option<Snapshot> {
        let (minute, day) = (self.windows.minute(now), self.windows.day(now));
        let usage = match self.usage_from_memory(minute, day, now) {
            Some(usage) => usage,
            None => self.ask(|conn| usage::by_route(conn, minute, day))?,
        };
        let keys = self.ask(host::keys)?;
        let usage = usage.into_iter().map(|row| {
            let used = [
                row.minute_requests,
                row.day_requests,
                row.minute_tokens,
                row.day_tokens,
            ];
            (row.platform, row.model, row.key, used)
        });
        let keys = keys
            .into_iter()
            .map(|row| SnapshotKey {
                id: row.id,
                platform: row.platform,
                base_url: row.base_url,
                eligible: row.eligible,
                scope: ModelScope::parse(row.model_scope.as_deref()),
            })
            .collect();
        Some(Snapshot::new(now, generation, usage, keys))
    }

    /// What [`usage::by_route`] would say, while memory knows every route.
    fn usage_from_memory(&mut self, minute: f64, day: f64, now: f64) -> Option<Vec<RouteUsage>> {
        let sight = self.look();
        let (index, conn) = (self.index.as_mut()?, sight.0.as_ref()?);
        let routes = &mut self.routes;
        index.read_all(conn, now, |name| {
            let id = routes.route(name.platform, name.model, name.key);
            (id, routes.get(id).map_or(u32::MAX, |route| route.account))
        })?;
        let known = index.all_routes(minute.min(day))?;
        let row = |id| {
            let route = routes.get(id)?;
            Some(RouteUsage {
                platform: route.platform.to_string(),
                model: route.model.to_string(),
                key: route.key,
                minute_requests: index.route_requests(id, minute, Span::Minute),
                day_requests: index.route_requests(id, day, Span::Day),
                minute_tokens: index.route_tokens(id, minute, Span::Minute),
                day_tokens: index.route_tokens(id, day, Span::Day),
            })
        };
        known.into_iter().map(row).collect()
    }

    pub fn invalidate_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// The keys with ripe benches, by their soonest ripe expiry. Paces of keys without probeable benches are forgotten.
    pub fn probe_candidates(&mut self, now: f64) -> Vec<RipeKey> {
        let Some(rows) = self.ask(|conn| table::probeable(conn, now)) else {
            return Vec::new();
        };
        let benched: FxHashSet<u64> = rows.iter().map(|row| row.key.to_bits()).collect();
        self.pacing
            .keep_only(|key| benched.contains(&key.to_bits()));
        let mut ripe: Vec<RipeKey> = Vec::new();
        let mut places = rustc_hash::FxHashMap::default();
        for row in rows
            .into_iter()
            .filter(|row| is_ripe(row.expires_at, row.set_at, now))
        {
            let place = *places.entry(row.key.to_bits()).or_insert_with(|| {
                ripe.push(RipeKey {
                    key: row.key,
                    benches: Vec::new(),
                });
                ripe.len() - 1
            });
            ripe[place].benches.push(row);
        }
        ripe
    }

    #[must_use]
    pub fn probe_turn(&self, key: f64, now: f64) -> Turn {
        self.pacing.turn(key, now)
    }

    pub fn schedule_probe(&mut self, key: f64, now: f64, jitter: f64) {
        self.pacing.schedule(key, now, jitter);
    }

    pub fn probe_failed(&mut self, key: f64, now: f64) {
        self.pacing.failed(key, now);
    }

    /// Lifts the benches that were ripe when the probe began; how many. One that the host made authoritative meanwhile
    /// stays, unless recorded.
    pub fn probe_succeeded(&mut self, ripe: &RipeKey) -> u32 {
        self.pacing.succeeded(ripe.key);
        let mut lifted = Vec::new();
        for bench in &ripe.benches {
            let id = self.routes.route(&bench.platform, &bench.model, bench.key);
            let gone = match self.compat {
                Compat::Recorded => {
                    self.clear_early(id);
                    true
                }
                Compat::Corrected => self.clear_if_heuristic(id),
            };
            if gone {
                lifted.push(bench);
            }
        }
        if !lifted.is_empty() {
            let routes: Vec<_> = lifted
                .iter()
                .map(|bench| {
                    json!({ "platform": bench.platform, "modelId": bench.model, "expiresAtMs": bench.expires_at })
                })
                .collect();
            self.link.emit(
                "cooldown_recovered",
                json!({ "keyId": ripe.key, "cooldowns": routes }),
            );
        }
        u32::try_from(lifted.len()).unwrap_or(u32::MAX)
    }

    pub fn reset_probe(&mut self) {
        self.pacing.clear();
    }
}
