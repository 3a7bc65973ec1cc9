//! Usage that no table holds: events whose insert failed. The only answer while the database is away.
//!
//! Bounded by pruning as events are pushed: a long outage keeps one day of them, and no route without any.

use std::collections::HashMap;

use crate::core::Compat;
use crate::core::route::RouteName;
use crate::core::time::{DAY, MINUTE};
use crate::core::windows::Span;
use crate::store::sqlite::usage::UsageKind;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    pub at: f64,
    pub tokens: f64,
}

#[derive(Debug, Default)]
struct Lists {
    minute: Vec<Event>,
    day: Vec<Event>,
}

impl Lists {
    fn push(&mut self, event: Event) {
        self.forget_old(event.at);
        self.minute.push(event);
        self.day.push(event);
    }

    fn forget_old(&mut self, now: f64) {
        self.minute.retain(|kept| kept.at > now - MINUTE);
        self.day.retain(|kept| kept.at > now - DAY);
    }

    fn is_empty(&self) -> bool {
        self.minute.is_empty() && self.day.is_empty()
    }
}

#[derive(Debug)]
struct RouteMemory {
    platform: String,
    model: String,
    key: f64,
    requests: Lists,
    tokens: Lists,
}

impl RouteMemory {
    fn of(&self, kind: UsageKind) -> &Lists {
        match kind {
            UsageKind::Request => &self.requests,
            UsageKind::Tokens => &self.tokens,
        }
    }

    fn of_mut(&mut self, kind: UsageKind) -> &mut Lists {
        match kind {
            UsageKind::Request => &mut self.requests,
            UsageKind::Tokens => &mut self.tokens,
        }
    }
}

/// Events of one kind: how many, and their tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    pub events: f64,
    pub tokens: f64,
}

impl Tally {
    fn of<'e>(events: impl Iterator<Item = &'e Event>) -> Self {
        events.fold(Self::default(), |tally, event| Self {
            events: tally.events + 1.0,
            tokens: tally.tokens + event.tokens,
        })
    }
}

/// Usage in memory.
#[derive(Debug)]
pub struct MemoryUsage {
    compat: Compat,
    routes: HashMap<String, RouteMemory>,
    last_sweep: Option<f64>,
}

impl MemoryUsage {
    #[must_use]
    pub fn new(compat: Compat) -> Self {
        Self {
            compat,
            routes: HashMap::new(),
            last_sweep: None,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    pub fn clear(&mut self) {
        self.routes.clear();
    }

    pub fn push(&mut self, route: &RouteName<'_>, kind: UsageKind, tokens: f64, at: f64) {
        self.sweep_if_due(at);
        self.routes
            .entry(route.memory_key(self.compat))
            .or_insert_with(|| RouteMemory {
                platform: route.platform.to_owned(),
                model: route.model.to_owned(),
                key: route.key,
                requests: Lists::default(),
                tokens: Lists::default(),
            })
            .of_mut(kind)
            .push(Event { at, tokens });
    }

    /// Prunes every route, at most once a minute and again when the clock stepped back: a route that is pushed to no
    /// more must not stay for ever. The recorded behaviour has no such thing.
    fn sweep_if_due(&mut self, now: f64) {
        let recently = |last| now >= last && now - last < MINUTE;
        if self.compat.is_recorded() || self.last_sweep.is_some_and(recently) {
            return;
        }
        self.last_sweep = Some(now);
        self.routes.retain(|_, memory| {
            memory.requests.forget_old(now);
            memory.tokens.forget_old(now);
            !(memory.requests.is_empty() && memory.tokens.is_empty())
        });
    }

    /// Events of a route after an instant. The recorded behaviour forgets, on reading, what has left the window, so
    /// that a clock that steps back misses it; the corrected one reads without forgetting.
    pub fn of_route(
        &mut self,
        route: &RouteName<'_>,
        kind: UsageKind,
        span: Span,
        after: f64,
        now: f64,
    ) -> Tally {
        if self.routes.is_empty() {
            return Tally::default();
        }
        let compat = self.compat;
        let Some(memory) = self.routes.get_mut(&route.memory_key(compat)) else {
            return Tally::default();
        };
        let lists = memory.of_mut(kind);
        let events = match (compat, span) {
            (Compat::Recorded, Span::Minute) => {
                lists.minute.retain(|event| event.at > now - MINUTE);
                &lists.minute
            }
            (Compat::Recorded, Span::Day) => {
                lists.day.retain(|event| event.at > now - DAY);
                &lists.day
            }
            (Compat::Corrected, _) => &lists.day,
        };
        Tally::of(events.iter().filter(|event| event.at > after))
    }

    /// Events of a platform and key after an instant, per model.
    pub fn of_account(
        &self,
        platform: &str,
        key: f64,
        kind: UsageKind,
        span: Span,
        after: f64,
    ) -> impl Iterator<Item = (&str, Tally)> {
        let wanted = platform.to_owned();
        let prefix = format!("{platform}:");
        let suffix = format!(":{}", key + 0.0);
        self.routes
            .iter()
            .filter(move |(name, memory)| match self.compat {
                Compat::Recorded => name.starts_with(&prefix) && name.ends_with(&suffix),
                Compat::Corrected => memory.platform == wanted && memory.key == key,
            })
            .map(move |(_, memory)| {
                let lists = memory.of(kind);
                let events = match span {
                    Span::Minute if self.compat.is_recorded() => &lists.minute,
                    _ => &lists.day,
                };
                (
                    memory.model.as_str(),
                    Tally::of(events.iter().filter(|event| event.at > after)),
                )
            })
    }

    /// Instant and tokens of a route's events after an instant.
    pub fn events_of_route(
        &self,
        route: &RouteName<'_>,
        kind: UsageKind,
        after: f64,
    ) -> Vec<(f64, f64)> {
        if self.routes.is_empty() {
            return Vec::new();
        }
        let memory = self.routes.get(&route.memory_key(self.compat));
        let events = memory.into_iter().flat_map(|memory| &memory.of(kind).day);
        events
            .filter(|event| event.at > after)
            .map(|event| (event.at, event.tokens))
            .collect()
    }

    /// Instants of an account's requests after an instant; the second numbers mean nothing.
    pub fn request_times_of_account(
        &self,
        platform: &str,
        key: f64,
        after: f64,
    ) -> Vec<(f64, f64)> {
        let of_account = |memory: &&RouteMemory| memory.platform == platform && memory.key == key;
        let events = self
            .routes
            .values()
            .filter(of_account)
            .flat_map(|memory| &memory.requests.day);
        events
            .filter(|event| event.at > after)
            .map(|event| (event.at, 0.0))
            .collect()
    }

    /// Every event, oldest first within its route, without forgetting any.
    pub fn events(&self) -> impl Iterator<Item = (RouteName<'_>, UsageKind, Event)> {
        self.routes.values().flat_map(|memory| {
            let route = RouteName {
                platform: &memory.platform,
                model: &memory.model,
                key: memory.key,
            };
            [UsageKind::Request, UsageKind::Tokens]
                .into_iter()
                .flat_map(move |kind| {
                    memory
                        .of(kind)
                        .day
                        .iter()
                        .map(move |event| (route, kind, *event))
                })
        })
    }

    /// How many events are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes
            .values()
            .map(|memory| memory.requests.day.len() + memory.tokens.day.len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: RouteName<'static> = RouteName {
        platform: "q",
        model: "m",
        key: 1.0,
    };

    #[test]
    fn a_clock_that_steps_back_loses_nothing_unless_recorded() {
        for (compat, expected) in [(Compat::Corrected, 2.0), (Compat::Recorded, 1.0)] {
            let mut memory = MemoryUsage::new(compat);
            memory.push(&ROUTE, UsageKind::Request, 0.0, 1.0);
            memory.push(&ROUTE, UsageKind::Request, 0.0, 50_000.0);
            let later = 60_500.0;
            memory.of_route(
                &ROUTE,
                UsageKind::Request,
                Span::Minute,
                later - MINUTE,
                later,
            );
            let back = 59_000.0;
            let tally = memory.of_route(
                &ROUTE,
                UsageKind::Request,
                Span::Minute,
                back - MINUTE,
                back,
            );
            assert_eq!(tally.events, expected, "{compat:?}");
        }
    }

    #[test]
    fn a_long_outage_keeps_one_day() {
        let mut memory = MemoryUsage::new(Compat::Corrected);
        for hour in 0..72 {
            memory.push(
                &ROUTE,
                UsageKind::Tokens,
                1.0,
                f64::from(hour) * 3_600_000.0,
            );
        }
        assert_eq!(memory.len(), 24);
    }

    #[test]
    fn a_route_that_is_pushed_to_no_more_goes_after_a_day() {
        let mut memory = MemoryUsage::new(Compat::Corrected);
        let other = RouteName {
            model: "other",
            ..ROUTE
        };
        memory.push(&ROUTE, UsageKind::Request, 0.0, 0.0);
        memory.push(&other, UsageKind::Request, 0.0, DAY - 1.0);
        assert_eq!(memory.len(), 2);
        memory.push(&other, UsageKind::Request, 0.0, DAY + MINUTE);
        assert_eq!(memory.routes.len(), 1);
        assert_eq!(memory.len(), 2);
    }
}
