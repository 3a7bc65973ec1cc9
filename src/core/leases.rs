//! Requests in flight: counted per route and per account as they come and go.
//!
//! Owns the book of leases and their expiry. Does not know what a route is: both sides of a lease are numbers.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::time::MINUTE;

/// A lease older than this was lost by its owner.
pub const LEASE_MAX_AGE: f64 = 2.0 * MINUTE;

/// By how much the clocks of processes that share leases may differ.
const CLOCK_SKEW: f64 = MINUTE / 6.0;

/// Dropped leases that are remembered.
const MAX_LOST: usize = 10_000;

/// What a set of leases holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    pub requests: u32,
    pub tokens: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lease {
    pub route: u32,
    /// The platform and key of the route.
    pub account: u32,
    pub tokens: f64,
    pub created_at: f64,
}

/// An instant as a sortable key. NaN sorts last: such a lease never expires by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Instant(f64);

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The book of leases.
#[derive(Debug, Default)]
pub struct LeaseBook {
    next_id: u64,
    leases: BTreeMap<u64, Lease>,
    expiry: BTreeSet<(Instant, u64)>,
    routes: FxHashMap<u32, Load>,
    accounts: FxHashMap<u32, Load>,
    /// Leases whose tokens are no small integer: their sums depend on the order of addition.
    inexact: usize,
    /// Leases that were dropped for their age, for the owner that comes back late. Bounded.
    lost: BTreeMap<u64, Lease>,
    expired: u64,
    acquired: u64,
    /// Of those that others can take away, the ones that were taken here; and whether the store of many owners was seen to
    /// keep them.
    own: FxHashMap<u64, bool>,
}

impl LeaseBook {
    /// Takes a lease; ids count from 1 and are never used again.
    pub fn acquire(&mut self, lease: Lease) -> u64 {
        self.next_id += 1;
        self.acquired += 1;
        self.insert(self.next_id, lease);
        self.next_id
    }

    /// Takes a lease under an id that a store of many owners gave.
    pub fn acquire_as(&mut self, id: u64, lease: Lease) {
        self.acquired += 1;
        self.own.insert(id, false);
        self.insert(id, lease);
    }

    /// Learns of a lease in the store of many owners that is not in the book: another owner's, or one of ours that had
    /// vanished.
    pub fn learn(&mut self, id: u64, lease: Lease) {
        if self.lost.remove(&id).is_some() {
            self.own.insert(id, true);
        }
        self.insert(id, lease);
    }

    /// The store of many owners keeps the lease, whatever is rolled back from now on.
    pub fn kept(&mut self, id: u64) {
        if let Some(kept) = self.own.get_mut(&id) {
            *kept = true;
        }
    }

    /// A lease is not in the store of many owners any more: somebody ended it. One of ours may still be settled when nobody
    /// can have done so: it was never kept (what took it was rolled back), or it is about to be too old and was dropped by
    /// somebody whose clock is ahead.
    pub fn vanished(&mut self, id: u64, now: f64) {
        let own = self.own.get(&id).copied();
        let Some(lease) = self.release(id) else {
            return;
        };
        let dropped = now - lease.created_at > LEASE_MAX_AGE - CLOCK_SKEW;
        if own == Some(false) || (own == Some(true) && dropped) {
            self.expired += u64::from(dropped);
            self.lose(id, lease);
        }
    }

    /// The store of many owners is out of reach: its leases stop counting, and ours may still be settled. Ids of leases that
    /// are in no store begin at `outside`.
    pub fn lose_sight(&mut self, outside: u64) {
        let ids: Vec<u64> = self.leases.range(..outside).map(|(id, _)| *id).collect();
        for id in ids {
            let own = self.own.contains_key(&id);
            if let Some(lease) = self.release(id)
                && own
            {
                self.lose(id, lease);
            }
        }
    }

    /// Numbers own leases from an id on.
    pub fn number_from(&mut self, id: u64) {
        self.next_id = self.next_id.max(id);
    }

    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Every id, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.leases.keys().copied()
    }

    /// Those of a store of many owners that were taken here.
    #[must_use]
    pub fn own_ids(&self) -> Vec<u64> {
        self.own.keys().copied().collect()
    }

    fn insert(&mut self, id: u64, lease: Lease) {
        for load in [
            self.routes.entry(lease.route).or_default(),
            self.accounts.entry(lease.account).or_default(),
        ] {
            load.requests += 1;
            load.tokens += lease.tokens;
        }
        self.inexact += usize::from(!is_exact(lease.tokens));
        self.expiry.insert((Instant(lease.created_at), id));
        self.leases.insert(id, lease);
    }

    fn lose(&mut self, id: u64, lease: Lease) {
        self.lost.insert(id, lease);
        if self.lost.len() > MAX_LOST {
            self.lost.pop_first();
        }
    }

    /// Gives a lease back. Unknown and already released ids change nothing.
    pub fn release(&mut self, id: u64) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        self.own.remove(&id);
        self.expiry.remove(&(Instant(lease.created_at), id));
        self.inexact -= usize::from(!is_exact(lease.tokens));
        for (loads, key) in [
            (&mut self.routes, lease.route),
            (&mut self.accounts, lease.account),
        ] {
            if let Some(load) = loads.get_mut(&key) {
                load.requests -= 1;
                load.tokens -= lease.tokens;
                if load.requests == 0 {
                    loads.remove(&key);
                }
            }
        }
        Some(lease)
    }

    /// Takes a lease out of those that were dropped for their age.
    pub fn take_expired(&mut self, id: u64) -> Option<Lease> {
        self.lost.remove(&id)
    }

    /// Every lease, in the order of acquisition.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// Drops the leases that are too old. Call before reading.
    pub fn expire(&mut self, now: f64) {
        while let Some(&(Instant(created_at), id)) = self.expiry.first() {
            if now - created_at > LEASE_MAX_AGE {
                if let Some(lease) = self.release(id) {
                    self.expired += 1;
                    self.lose(id, lease);
                }
            } else {
                break;
            }
        }
    }

    #[must_use]
    pub fn of_route(&self, route: u32) -> Load {
        self.load(self.routes.get(&route), |lease| lease.route == route)
    }

    #[must_use]
    pub fn of_account(&self, account: u32) -> Load {
        self.load(self.accounts.get(&account), |lease| {
            lease.account == account
        })
    }

    fn load(&self, kept: Option<&Load>, belongs: impl Fn(&Lease) -> bool) -> Load {
        let mut load = kept.copied().unwrap_or_default();
        if self.inexact > 0 {
            // In the order of acquisition, from nothing: the sum that a loop over the leases gives.
            load.tokens = self
                .leases
                .values()
                .filter(|lease| belongs(lease))
                .fold(0.0, |sum, lease| sum + lease.tokens);
        }
        load
    }

    pub fn len(&self) -> usize {
        self.leases.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Leases that were dropped for their age so far.
    #[must_use]
    pub fn expired_total(&self) -> u64 {
        self.expired
    }

    #[must_use]
    pub fn acquired_total(&self) -> u64 {
        self.acquired
    }

    /// The routes that a lease stands on, or was dropped on and may still be settled.
    #[must_use]
    pub fn routes(&self) -> FxHashSet<u32> {
        let dropped = self.lost.values().map(|lease| lease.route);
        self.routes.keys().copied().chain(dropped).collect()
    }

    /// An empty book that goes on with the ids of this one: who still holds a lease of it must not meet another's.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self {
            next_id: self.next_id,
            ..Self::default()
        }
    }

    /// Forgets every lease. Ids go on counting.
    pub fn clear(&mut self) {
        *self = Self {
            next_id: self.next_id,
            expired: self.expired,
            acquired: self.acquired,
            ..Self::default()
        };
    }
}

/// Sums of such numbers do not depend on their order, as long as they stay below 2^53.
fn is_exact(tokens: f64) -> bool {
    tokens.fract() == 0.0 && tokens.abs() < 1e12
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(route: u32, tokens: f64, created_at: f64) -> Lease {
        Lease {
            route,
            account: route % 2,
            tokens,
            created_at,
        }
    }

    #[test]
    fn counts_per_route_and_account() {
        let mut book = LeaseBook::default();
        let first = book.acquire(lease(1, 10.0, 0.0));
        book.acquire(lease(3, 5.0, 0.0));
        assert_eq!(
            book.of_route(1),
            Load {
                requests: 1,
                tokens: 10.0
            }
        );
        assert_eq!(
            book.of_account(1),
            Load {
                requests: 2,
                tokens: 15.0
            }
        );
        assert!(book.release(first).is_some());
        assert!(book.release(first).is_none());
        assert_eq!(
            book.of_account(1),
            Load {
                requests: 1,
                tokens: 5.0
            }
        );
    }

    #[test]
    fn expires_after_two_minutes_not_at_two_minutes() {
        let mut book = LeaseBook::default();
        book.acquire(lease(1, 1.0, 1000.0));
        book.expire(1000.0 + LEASE_MAX_AGE);
        assert_eq!(book.len(), 1);
        book.expire(1001.0 + LEASE_MAX_AGE);
        assert!(book.is_empty());
        assert_eq!(book.of_route(1), Load::default());
    }

    #[test]
    fn what_another_owner_ended_is_gone_and_what_it_dropped_may_be_settled() {
        let mut book = LeaseBook::default();
        book.acquire_as(7, lease(1, 1.0, 0.0));
        book.learn(8, lease(1, 1.0, 0.0));
        book.acquire_as(9, lease(1, 1.0, 0.0));
        book.kept(7);
        book.kept(9);
        assert_eq!(book.of_route(1).requests, 3);
        book.vanished(7, 1000.0);
        assert!(book.take_expired(7).is_none());
        for id in [8, 9] {
            book.vanished(id, LEASE_MAX_AGE - 1000.0);
        }
        assert!(book.take_expired(8).is_none());
        assert!(book.take_expired(9).is_some());
        assert!(book.is_empty());
        assert_eq!(book.acquired_total(), 2);
    }

    #[test]
    fn what_was_rolled_back_or_is_out_of_reach_may_be_settled_once() {
        let mut book = LeaseBook::default();
        book.acquire_as(7, lease(1, 1.0, 0.0));
        book.vanished(7, 1000.0);
        assert!(book.take_expired(7).is_some());
        assert!(book.take_expired(7).is_none());

        book.acquire_as(8, lease(1, 1.0, 0.0));
        book.learn(9, lease(1, 1.0, 0.0));
        book.kept(8);
        book.lose_sight(100);
        assert!(book.is_empty());
        assert!(book.take_expired(9).is_none());
        book.learn(8, lease(1, 1.0, 0.0));
        assert!(book.take_expired(8).is_none(), "back in reach: not lost");
        assert_eq!(book.own_ids(), [8]);
        assert_eq!(book.expired_total(), 0);
    }

    #[test]
    fn fractions_are_summed_in_the_order_of_acquisition() {
        let mut book = LeaseBook::default();
        let odd = book.acquire(lease(1, 0.7, 0.0));
        book.acquire(lease(1, 0.1, 0.0));
        book.acquire(lease(1, 0.2, 0.0));
        book.release(odd);
        assert_eq!(book.of_route(1).tokens, 0.1 + 0.2);
    }
}
