//! Instants of refusals per route, for the ladder and for limits that nobody published.

use std::collections::HashMap;

use super::Compat;
use super::route::RouteName;

/// Lists of hits, per route.
#[derive(Debug)]
pub struct HitLists {
    compat: Compat,
    /// Hits older than this are of no use to anybody.
    keep: f64,
    lists: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    key: f64,
    hits: Vec<f64>,
}

impl HitLists {
    #[must_use]
    pub fn new(compat: Compat, keep: f64) -> Self {
        Self {
            compat,
            keep,
            lists: HashMap::new(),
        }
    }

    /// Adds a hit; how many are younger than `keep` now, this one included.
    pub fn hit(&mut self, route: &RouteName<'_>, now: f64) -> usize {
        let keep = self.keep;
        let entry = self
            .lists
            .entry(route.memory_key(self.compat))
            .or_insert(Entry {
                key: route.key,
                hits: Vec::new(),
            });
        entry.hits.retain(|at| *at > now - keep);
        entry.hits.push(now);
        entry.hits.len()
    }

    /// Hits of a route within a span before `now`.
    #[must_use]
    pub fn count(&self, route: &RouteName<'_>, now: f64, span: f64) -> usize {
        self.lists
            .get(&route.memory_key(self.compat))
            .map_or(0, |entry| {
                entry.hits.iter().filter(|at| **at > now - span).count()
            })
    }

    pub fn forget(&mut self, route: &RouteName<'_>) {
        self.lists.remove(&route.memory_key(self.compat));
    }

    pub fn forget_memory_key(&mut self, memory_key: &str) {
        self.lists.remove(memory_key);
    }

    pub fn forget_key(&mut self, key: f64) {
        self.lists.retain(|_, entry| entry.key != key);
    }

    /// Drops routes whose last hit is older than `keep`: a route that never fails again must not stay for ever.
    pub fn sweep(&mut self, now: f64) {
        let keep = self.keep;
        self.lists
            .retain(|_, entry| entry.hits.iter().any(|at| *at > now - keep));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    pub fn clear(&mut self) {
        self.lists.clear();
    }
}
