//! Benches in memory, for the time when the table does not answer. Whether memory may answer is `cooldowns`' to say.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::core::Compat;
use crate::core::route::RouteName;

/// A bench in memory.
#[derive(Debug)]
struct MemoryBench {
    key: f64,
    expires_at: f64,
    /// Set while the database was away: no row speaks for it.
    away: bool,
}

/// Benches in memory, for the time when the table does not answer.
#[derive(Debug)]
pub struct MemoryCooldowns {
    compat: Compat,
    benches: HashMap<String, MemoryBench>,
    /// How many were set while the database was away.
    away: usize,
    /// Copies of rows that are up to date, by route handle: asking again writes nothing.
    copied: FxHashMap<u32, f64>,
}

impl MemoryCooldowns {
    #[must_use]
    pub fn new(compat: Compat) -> Self {
        Self {
            compat,
            benches: HashMap::new(),
            away: 0,
            copied: FxHashMap::default(),
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.benches.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.benches.is_empty()
    }

    pub(super) fn set(&mut self, route: &RouteName<'_>, expires_at: f64, away: bool) {
        self.copied.clear();
        let bench = MemoryBench {
            key: route.key,
            expires_at,
            away,
        };
        let before = self.benches.insert(route.memory_key(self.compat), bench);
        self.away += usize::from(away);
        self.away -= usize::from(before.is_some_and(|before| before.away));
    }

    /// Keeps a copy of a row that the table holds.
    pub(super) fn copy(&mut self, handle: u32, route: &RouteName<'_>, expires_at: f64) {
        if self.copied.get(&handle) != Some(&expires_at) {
            self.set(route, expires_at, false);
            self.copied.insert(handle, expires_at);
        }
    }

    pub(super) fn remove(&mut self, route: &RouteName<'_>) {
        if !self.benches.is_empty() {
            self.remove_named(&route.memory_key(self.compat));
        }
    }

    pub(super) fn remove_named(&mut self, name: &str) {
        self.copied.clear();
        self.away -= usize::from(self.benches.remove(name).is_some_and(|bench| bench.away));
    }

    /// Whether memory benches the route: true at the very instant of expiry.
    pub(super) fn benches(&self, route: &RouteName<'_>, now: f64) -> bool {
        self.benches
            .get(&route.memory_key(self.compat))
            .is_some_and(|bench| now <= bench.expires_at)
    }

    pub(super) fn ends(&self, route: &RouteName<'_>) -> Option<f64> {
        self.benches
            .get(&route.memory_key(self.compat))
            .map(|bench| bench.expires_at)
    }

    /// Whether a bench that was set while the database was away holds.
    pub(super) fn benches_away(&self, route: &RouteName<'_>, now: f64) -> bool {
        self.away > 0
            && self
                .benches
                .get(&route.memory_key(self.compat))
                .is_some_and(|bench| bench.away && now <= bench.expires_at)
    }

    /// Drops the copy of a row that is gone; what was set while the database was away stays.
    pub(super) fn forget_copy(&mut self, route: &RouteName<'_>) {
        if self.benches.is_empty() {
            return;
        }
        let name = route.memory_key(self.compat);
        if self.benches.get(&name).is_some_and(|bench| !bench.away) {
            self.remove_named(&name);
        }
    }

    /// Removes the benches of a key: their memory keys, and how many of them no row speaks for.
    pub(super) fn remove_key(&mut self, key: f64) -> (Vec<String>, usize) {
        let suffix = format!(":{}", key + 0.0);
        let (compat, before) = (self.compat, self.away);
        let gone: Vec<String> = self
            .benches
            .iter()
            .filter(|(name, bench)| match compat {
                Compat::Recorded => name.ends_with(&suffix),
                Compat::Corrected => bench.key == key,
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            self.remove_named(name);
        }
        (gone, before - self.away)
    }

    /// Handles of routes are given out anew.
    pub(super) fn forget_handles(&mut self) {
        self.copied.clear();
    }

    pub(super) fn remove_expired(&mut self, now: f64) {
        self.copied.clear();
        self.benches.retain(|_, bench| bench.expires_at > now);
        self.away = self.benches.values().filter(|bench| bench.away).count();
    }
}
