//! Usage, cooldowns and caps in memory, exactly as SQL would read them.
//!
//! Each table has a version here, which moves with every change that was not applied in memory; an entry answers only under
//! the version it was read with. Rows that SQL would treat in a way of its own (fractions, huge numbers, other types or
//! collations) are not remembered: their routes are answered by SQL. This file owns what is remembered; whether a table has
//! changed is `watch`'s to say.

mod load;
mod series;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use self::series::Series;
use super::connection::Conn;
use super::follow::Follower;
use super::usage::UsageKind;
use super::watch::{Cause, Watched};
use crate::core::route::RouteName;
use crate::core::time::DAY;
use crate::core::windows::Span;

/// A route with more rows than this is read again only when it is asked about twice without a change in between: a writer
/// that never pauses would make reading cost more than counting.
const EAGER_ROWS: usize = 512;

/// The tables it is made from.
const TABLES: [Watched; 3] = [Watched::Usage, Watched::Cooldowns, Watched::Keys];

/// A route as the index is asked about it.
#[derive(Debug, Clone, Copy)]
pub struct RouteRef<'a> {
    pub route: u32,
    pub account: u32,
    pub name: RouteName<'a>,
}

/// Usage of one route.
#[derive(Debug)]
struct RouteUsage {
    version: u64,
    account: u32,
    /// Rows at or before this instant were not read.
    floor: f64,
    /// Some row needs SQL's own arithmetic.
    odd: bool,
    requests: Series,
    tokens: Series,
    used_at: f64,
}

impl RouteUsage {
    fn empty(version: u64, account: u32, floor: f64, used_at: f64) -> Self {
        let (requests, tokens) = (Series::default(), Series::default());
        Self {
            version,
            account,
            floor,
            odd: false,
            requests,
            tokens,
            used_at,
        }
    }

    fn rows(&self) -> usize {
        self.requests.len() + self.tokens.len()
    }

    /// Asks about what lies after an instant; `None` where SQL has to answer. `pruned_until`: rows at or before it may be
    /// gone from the table.
    fn answer<T>(
        &mut self,
        pruned_until: f64,
        after: f64,
        now: f64,
        ask: impl FnOnce(&Self) -> T,
    ) -> Option<T> {
        if self.odd || !(after >= self.floor && after >= pruned_until) {
            return None;
        }
        self.used_at = self.used_at.max(now);
        Some(ask(self))
    }
}

/// A value that was read under a version.
#[derive(Debug, Clone)]
struct Kept<T> {
    version: u64,
    value: T,
}

/// An account that was read whole.
#[derive(Debug, Clone)]
struct AccountRoutes {
    floor: f64,
    /// Shared with whoever is adding them up.
    routes: Rc<Vec<u32>>,
}

/// Counters for the operator's view.
#[derive(Debug, Clone, Copy, Default)]
pub struct IndexStats {
    /// Answers from memory.
    pub hits: u64,
    /// Answers by SQL, by cause.
    pub in_transaction: u64,
    pub changed: u64,
    pub not_remembered: u64,
    /// Routes, accounts and cooldowns read from the tables for the first time.
    pub first_reads: u64,
    /// The same again, by cause.
    pub reads_again: [u64; Cause::ALL.len()],
}

impl IndexStats {
    /// Counts a question that memory answered, or that SQL has to.
    fn count(&mut self, remembered: bool) {
        let counter = if remembered {
            &mut self.hits
        } else {
            &mut self.not_remembered
        };
        *counter += 1;
    }
}

/// What is remembered of one connection.
#[derive(Debug, Default)]
pub struct Index {
    generation: u64,
    follower: Follower,
    usage: FxHashMap<u32, RouteUsage>,
    /// Stale routes that were asked about once: under which version.
    asked: FxHashMap<u32, u64>,
    accounts: FxHashMap<u32, Kept<AccountRoutes>>,
    asked_accounts: FxHashMap<u32, u64>,
    /// The floor under which every route of the table is known.
    complete: Option<Kept<f64>>,
    /// The version under which all routes were last asked for.
    asked_all: Option<u64>,
    cooldowns: FxHashMap<u32, Kept<Option<f64>>>,
    key_caps: FxHashMap<(u32, u8), Kept<Option<f64>>>,
    /// Rows at or before this instant may be gone from the table.
    pruned_until: f64,
    pub stats: IndexStats,
}

impl Index {
    #[must_use]
    pub fn new() -> Self {
        Self {
            follower: Follower::new(&TABLES),
            pruned_until: f64::NEG_INFINITY,
            ..Self::default()
        }
    }

    /// Looks whether anything changed. `false`: nothing can be said now, SQL has to answer.
    pub fn look(&mut self, conn: &Conn, generation: u64) -> bool {
        if generation != self.generation {
            *self = Self {
                generation,
                stats: self.stats,
                ..Self::new()
            };
        }
        let looked = self.follower.look(conn);
        if !looked {
            self.stats.in_transaction += 1;
        }
        looked
    }

    fn version(&self, table: Watched) -> u64 {
        self.follower.version(table)
    }

    /// `again`: it was read before.
    fn count_read(&mut self, table: Watched, again: bool) {
        let counter = if again {
            &mut self.stats.reads_again[self.follower.cause(table) as usize]
        } else {
            &mut self.stats.first_reads
        };
        *counter += 1;
    }

    fn is_usable(&self, table: Watched) -> bool {
        self.follower.is_usable(table)
    }

    /// Requests of a route after an instant. Like every question: only right after a look that said yes.
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^52 rows
    pub fn requests(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        after: f64,
        span: Span,
        now: f64,
    ) -> Option<f64> {
        self.of_route(conn, route, after, now, |usage| {
            usage.requests.count_after(after, span as usize) as f64
        })
    }

    /// Tokens of a route after an instant.
    #[allow(clippy::cast_precision_loss)] // as a 64-bit sum of SQLite becomes a double
    pub fn tokens(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        after: f64,
        span: Span,
        now: f64,
    ) -> Option<f64> {
        self.of_route(conn, route, after, now, |usage| {
            usage.tokens.tokens_after(after, span as usize) as f64
        })
    }

    /// Instant and tokens of a route's events after an instant, ascending.
    #[allow(clippy::cast_precision_loss)] // both are far below 2^53
    pub fn events(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        kind: UsageKind,
        after: f64,
        now: f64,
    ) -> Option<Vec<(f64, f64)>> {
        self.of_route(conn, route, after, now, |usage| {
            let series = match kind {
                UsageKind::Request => &usage.requests,
                UsageKind::Tokens => &usage.tokens,
            };
            series
                .events_after(after)
                .map(|(at, tokens)| (at as f64, tokens as f64))
                .collect()
        })
    }

    /// Asks the remembered usage of a route, read now where that is worth it.
    fn of_route<T>(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        after: f64,
        now: f64,
        ask: impl FnOnce(&RouteUsage) -> T,
    ) -> Option<T> {
        let version = self.version(Watched::Usage);
        let pruned_until = self.pruned_until;
        if let Some(usage) = self.usage.get_mut(&route.route)
            && usage.version == version
        {
            let answer = usage.answer(pruned_until, after, now, ask);
            self.stats.count(answer.is_some());
            return answer;
        }
        self.read_again(conn, route, after, now)?;
        let usage = self.usage.get_mut(&route.route)?;
        let answer = usage.answer(pruned_until, after, now, ask);
        self.stats.count(answer.is_some());
        answer
    }

    /// Reads a route that is not remembered or changed.
    fn read_again(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        after: f64,
        now: f64,
    ) -> Option<()> {
        if !self.is_usable(Watched::Usage) {
            self.stats.not_remembered += 1;
            return None;
        }
        let version = self.version(Watched::Usage);
        let rows = self.usage.get(&route.route).map_or(0, RouteUsage::rows);
        if rows > EAGER_ROWS && self.asked.insert(route.route, version) != Some(version) {
            self.stats.changed += 1;
            return None;
        }
        self.asked.remove(&route.route);
        self.read_route(conn, route, after, now)
    }

    fn read_route(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        after: f64,
        now: f64,
    ) -> Option<()> {
        let version = self.version(Watched::Usage);
        let known_empty = self
            .complete
            .as_ref()
            .filter(|kept| kept.version == version)
            .map(|kept| kept.value);
        let usage = if let Some(floor) = known_empty {
            RouteUsage::empty(version, route.account, floor, now)
        } else {
            let floor = after.min(now - DAY);
            let usage = load::route(conn, &route.name, floor).ok()?;
            self.count_read(Watched::Usage, self.usage.contains_key(&route.route));
            RouteUsage {
                version,
                account: route.account,
                floor,
                used_at: now,
                ..usage
            }
        };
        self.confirm(conn, Watched::Usage)?;
        self.usage.insert(route.route, usage);
        Some(())
    }

    /// After reading a table: nothing when it changed since the reading began.
    fn confirm(&mut self, conn: &Conn, table: Watched) -> Option<()> {
        let same = self.follower.confirm(conn, table);
        if !same {
            self.stats.changed += 1;
        }
        same.then_some(())
    }

    /// The routes of an account that has been read whole, for questions after an instant. `name` turns a model into a
    /// route handle.
    pub fn account_routes(
        &mut self,
        conn: &Conn,
        account: u32,
        (platform, key): (&str, f64),
        after: f64,
        now: f64,
        mut handle: impl FnMut(&str) -> u32,
    ) -> Option<Rc<Vec<u32>>> {
        if !self.is_usable(Watched::Usage) {
            self.stats.not_remembered += 1;
            return None;
        }
        let version = self.version(Watched::Usage);
        if !self
            .accounts
            .get(&account)
            .is_some_and(|kept| kept.version == version && kept.value.floor <= after)
        {
            let complete = self
                .complete
                .as_ref()
                .is_some_and(|kept| kept.version == version && kept.value <= after);
            let seen = self.accounts.contains_key(&account);
            if seen && !complete && self.asked_accounts.insert(account, version) != Some(version) {
                self.stats.changed += 1;
                return None;
            }
            self.asked_accounts.remove(&account);
            let (floor, routes) = if complete {
                let routes = self
                    .usage
                    .iter()
                    .filter(|(_, usage)| usage.account == account)
                    .map(|(route, _)| *route);
                (self.complete.as_ref()?.value, routes.collect::<Vec<u32>>())
            } else {
                let floor = after.min(now - DAY);
                let models = load::models_of_account(conn, platform, key, floor).ok()?;
                self.count_read(Watched::Usage, seen);
                let Some(models) = models else {
                    self.stats.not_remembered += 1;
                    return None;
                };
                let mut routes = Vec::with_capacity(models.len());
                for model in models {
                    let route = handle(&model);
                    let name = RouteName {
                        platform,
                        model: &model,
                        key,
                    };
                    self.read_route(
                        conn,
                        &RouteRef {
                            route,
                            account,
                            name,
                        },
                        floor,
                        now,
                    )?;
                    routes.push(route);
                }
                self.confirm(conn, Watched::Usage)?;
                (floor, routes)
            };
            self.accounts.insert(
                account,
                Kept {
                    version,
                    value: AccountRoutes {
                        floor,
                        routes: Rc::new(routes),
                    },
                },
            );
        }
        let routes = &self.accounts.get(&account)?.value.routes;
        // Every route must be able to answer, or SQL has to.
        let able = after >= self.pruned_until
            && routes.iter().all(|route| {
                self.usage.get(route).is_some_and(|usage| {
                    usage.version == version && !usage.odd && usage.floor <= after
                })
            });
        let routes = able.then(|| Rc::clone(routes));
        self.stats.count(able);
        routes
    }

    /// Requests of a route that [`Self::account_routes`] or [`Self::all_routes`] named.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // as above
    pub fn route_requests(&self, route: u32, after: f64, span: Span) -> f64 {
        self.usage.get(&route).map_or(0.0, |usage| {
            usage.requests.count_after(after, span as usize) as f64
        })
    }

    /// Tokens of such a route.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // as above
    pub fn route_tokens(&self, route: u32, after: f64, span: Span) -> f64 {
        self.usage.get(&route).map_or(0.0, |usage| {
            usage.tokens.tokens_after(after, span as usize) as f64
        })
    }

    /// Knows every route of the table from now on, so that a snapshot needs no scan. Where the table changed since the last
    /// time, reading it whole would cost more than the scan: the caller's SQL answers then.
    pub fn read_all(
        &mut self,
        conn: &Conn,
        now: f64,
        mut handle: impl FnMut(&RouteName<'_>) -> (u32, u32),
    ) -> Option<()> {
        let version = self.version(Watched::Usage);
        if self
            .complete
            .as_ref()
            .is_some_and(|kept| kept.version == version)
        {
            return Some(());
        }
        if !self.is_usable(Watched::Usage) {
            self.stats.not_remembered += 1;
            return None;
        }
        if self
            .asked_all
            .replace(version)
            .is_some_and(|last| last != version)
        {
            self.stats.changed += 1;
            return None;
        }
        let floor = now - DAY;
        let mut found = FxHashMap::default();
        let all_named = load::all(conn, floor, |name, usage| {
            let (route, account) = handle(&name);
            found.insert(
                route,
                RouteUsage {
                    version,
                    account,
                    floor,
                    used_at: now,
                    ..usage
                },
            );
        })
        .ok()?;
        self.count_read(Watched::Usage, self.complete.is_some());
        if !all_named {
            self.stats.not_remembered += 1;
            return None;
        }
        self.confirm(conn, Watched::Usage)?;
        self.usage = found;
        self.accounts.clear();
        self.complete = Some(Kept {
            version,
            value: floor,
        });
        Some(())
    }

    /// Every route that is known, once [`Self::read_all`] said yes; `None` when some needs SQL.
    pub fn all_routes(&mut self, after: f64) -> Option<Vec<u32>> {
        let version = self.version(Watched::Usage);
        let known = self
            .complete
            .as_ref()
            .is_some_and(|kept| kept.version == version && kept.value <= after);
        let able =
            known && after >= self.pruned_until && self.usage.values().all(|usage| !usage.odd);
        self.stats.count(able);
        able.then(|| self.usage.keys().copied().collect())
    }

    /// When a bench ends, if the route has one.
    pub fn bench(
        &mut self,
        conn: &Conn,
        route: u32,
        read: impl FnOnce(&Conn) -> Option<Option<f64>>,
    ) -> Option<Option<f64>> {
        self.kept(
            conn,
            Watched::Cooldowns,
            route,
            |index| &mut index.cooldowns,
            read,
        )
    }

    /// An account's own cap from its key row.
    pub fn key_cap(
        &mut self,
        conn: &Conn,
        account: u32,
        cap: u8,
        read: impl FnOnce(&Conn) -> Option<Option<f64>>,
    ) -> Option<Option<f64>> {
        self.kept(
            conn,
            Watched::Keys,
            (account, cap),
            |index| &mut index.key_caps,
            read,
        )
    }

    fn kept<K: std::hash::Hash + Eq + Copy, T: Copy>(
        &mut self,
        conn: &Conn,
        table: Watched,
        key: K,
        map: impl Fn(&mut Self) -> &mut FxHashMap<K, Kept<T>>,
        read: impl FnOnce(&Conn) -> Option<T>,
    ) -> Option<T> {
        let version = self.version(table);
        if let Some(kept) = map(self).get(&key).filter(|kept| kept.version == version) {
            let value = kept.value;
            self.stats.hits += 1;
            return Some(value);
        }
        if !self.is_usable(table) {
            self.stats.not_remembered += 1;
            return None;
        }
        let value = read(conn)?;
        let seen = map(self).contains_key(&key);
        self.count_read(table, seen);
        self.confirm(conn, table)?;
        map(self).insert(key, Kept { version, value });
        Some(value)
    }

    /// Applies rows of ours on one route, written in one commit, if nothing else happened since the last look.
    pub fn inserted(
        &mut self,
        conn: &Conn,
        route: &RouteRef<'_>,
        rows: &[(UsageKind, f64)],
        at: f64,
    ) {
        if !self
            .follower
            .was_only(conn, Watched::Usage, rows.len() as u64)
        {
            return;
        }
        let version = self.version(Watched::Usage);
        let account_floor = self
            .accounts
            .get_mut(&route.account)
            .filter(|kept| kept.version == version)
            .map(|kept| {
                if !kept.value.routes.contains(&route.route) {
                    Rc::make_mut(&mut kept.value.routes).push(route.route);
                }
                kept.value.floor
            })
            .or_else(|| {
                self.complete
                    .as_ref()
                    .filter(|kept| kept.version == version)
                    .map(|kept| kept.value)
            });
        if let Some(floor) = account_floor {
            // Nothing of this route is in the table but the rows just written.
            let usage = self
                .usage
                .entry(route.route)
                .or_insert_with(|| RouteUsage::empty(version, route.account, floor, at));
            if usage.version != version {
                *usage = RouteUsage::empty(version, route.account, floor, at);
            }
        }
        let Some(usage) = self
            .usage
            .get_mut(&route.route)
            .filter(|usage| usage.version == version)
        else {
            return;
        };
        for (kind, tokens) in rows {
            let series = match kind {
                UsageKind::Request => &mut usage.requests,
                UsageKind::Tokens => &mut usage.tokens,
            };
            match (
                series::whole(at),
                series::whole(*tokens).filter(|tokens| tokens.abs() <= series::MAX_TOKENS),
            ) {
                (Some(at), Some(tokens)) if !series.is_too_long() => {
                    series.insert(at, tokens, *kind == UsageKind::Tokens);
                }
                _ => usage.odd = true,
            }
        }
        usage.used_at = usage.used_at.max(at);
    }

    /// Applies a prune of ours that deleted `rows` rows.
    pub fn pruned(&mut self, conn: &Conn, until: f64, rows: u64, now: f64) {
        if rows > 0 && !self.follower.was_only(conn, Watched::Usage, rows) {
            return;
        }
        self.pruned_until = self.pruned_until.max(until);
        for usage in self.usage.values_mut() {
            usage.requests.forget_until(until);
            usage.tokens.forget_until(until);
        }
        let mut left = Vec::new();
        self.usage.retain(|route, usage| {
            // What it still holds is in the future of a clock that stepped back: nobody would read it again while
            // everything is taken to be known.
            let keep = now - usage.used_at < DAY || usage.rows() > 0;
            if !keep {
                left.push((*route, usage.account));
            }
            keep
        });
        for (route, account) in left {
            if let Some(kept) = self.accounts.get_mut(&account) {
                Rc::make_mut(&mut kept.value.routes).retain(|known| *known != route);
            }
        }
        let version = self.version(Watched::Cooldowns);
        self.cooldowns.retain(|_, kept| {
            kept.version == version && kept.value.is_none_or(|ends| ends > now - DAY)
        });
        self.asked.clear();
        self.asked_accounts.clear();
    }

    /// Applies a bench of ours: set (`Some`) or lifted, `rows` rows changed.
    pub fn bench_changed(&mut self, conn: &Conn, route: u32, ends: Option<f64>, rows: u64) {
        if rows == 0 || self.follower.was_only(conn, Watched::Cooldowns, rows) {
            let version = self.version(Watched::Cooldowns);
            self.cooldowns.insert(
                route,
                Kept {
                    version,
                    value: ends,
                },
            );
        }
    }

    /// Handles of routes are given out anew: what is filed under them goes.
    pub fn forget_handles(&mut self) {
        *self = Self {
            generation: self.generation,
            follower: std::mem::take(&mut self.follower),
            pruned_until: self.pruned_until,
            stats: self.stats,
            ..Self::new()
        };
    }

    /// Bytes that the remembered usage takes, about: events, their sums, and the tables around them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let series: usize = self
            .usage
            .values()
            .map(|usage| usage.requests.bytes() + usage.tokens.bytes())
            .sum();
        // A hash table keeps room for an eighth more, and a byte of its own for each entry.
        let entry = std::mem::size_of::<(u32, RouteUsage)>() + 1;
        series + self.usage.capacity() * entry * 8 / 7
    }

    /// Routes whose usage is remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.usage.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.usage.is_empty()
    }
}
