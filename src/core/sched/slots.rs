//! Requests in flight per connection. Owns when a slot begins, ends and expires; who takes one is decided elsewhere.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use super::NameId;
use crate::core::Compat;

/// A request that never reports back holds its slot this long, in ms.
pub const SLOT_TTL_MS: f64 = 120_000.0;

/// An instant in epoch ms, ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Instant(f64);

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Names one taken slot, for giving exactly that one back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    pub conn: NameId,
    /// Epoch ms.
    pub expires: f64,
    pub serial: u64,
}

/// The slots of all connections.
#[derive(Debug, Default)]
pub struct Slots {
    compat: Compat,
    /// By expiry, the earliest in front. Never empty.
    by_conn: FxHashMap<NameId, VecDeque<(f64, u64)>>,
    /// The first expiry of each connection: what the sweep looks at.
    first: BTreeSet<(Instant, NameId)>,
    serial: u64,
}

impl Slots {
    #[must_use]
    pub fn new(compat: Compat) -> Self {
        Self {
            compat,
            ..Self::default()
        }
    }

    /// Takes a slot for `ttl` ms; everything that expired by `now` goes first, on every connection.
    ///
    /// In the runs a connection has one expiry, renewed by each new request: in a steady stream a slot that is never
    /// released never expires. Corrected: each slot has its own.
    ///
    /// Gives the slot and how many the connection has with it.
    pub fn take(&mut self, conn: NameId, ttl: f64, now: f64) -> (Slot, usize) {
        self.sweep(now);
        self.serial += 1;
        let slot = Slot {
            conn,
            expires: now + ttl,
            serial: self.serial,
        };
        let recorded = self.compat.is_recorded();
        let mut taken = 0;
        self.change(conn, |slots| {
            if recorded {
                for (expires, _) in slots.iter_mut() {
                    *expires = slot.expires;
                }
            }
            let at = slots.partition_point(|&(expires, _)| expires <= slot.expires);
            slots.insert(at, (slot.expires, slot.serial));
            taken = slots.len();
        });
        (slot, taken)
    }

    /// How many slots of `conn` are alive at `now`. Changes nothing.
    #[must_use]
    pub fn count(&self, conn: NameId, now: f64) -> usize {
        self.by_conn.get(&conn).map_or(0, |slots| {
            slots.len() - slots.partition_point(|&(expires, _)| expires <= now)
        })
    }

    /// Ends some request of `conn`: of those alive, the one that would expire first.
    pub fn give_back_one(&mut self, conn: NameId, now: f64) {
        let recorded = self.compat.is_recorded();
        self.change(conn, |slots| {
            if !recorded {
                let expired = slots.partition_point(|&(expires, _)| expires <= now);
                slots.drain(..expired);
            }
            slots.pop_front();
        });
    }

    /// Ends the request that took `slot`. One that expired or was given back is not given back again.
    ///
    /// In the runs a late release takes the slot of some other request of the connection.
    pub fn give_back(&mut self, slot: Slot, now: f64) {
        if self.compat.is_recorded() {
            return self.give_back_one(slot.conn, now);
        }
        self.change(slot.conn, |slots| {
            let from = slots.partition_point(|&(expires, _)| expires < slot.expires);
            let same_ms = slots
                .range(from..)
                .take_while(|(expires, _)| *expires == slot.expires);
            if let Some(at) = same_ms
                .enumerate()
                .find_map(|(at, &(_, serial))| (serial == slot.serial).then_some(at))
            {
                slots.remove(from + at);
            }
        });
    }

    /// Connections with a slot that no sweep has seen expire.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.by_conn.len()
    }

    #[must_use]
    pub fn mentions(&self, conn: NameId) -> bool {
        self.by_conn.contains_key(&conn)
    }

    fn sweep(&mut self, now: f64) {
        while let Some(&(first, conn)) = self.first.first() {
            if first.0 > now {
                return;
            }
            self.change(conn, |slots| {
                let expired = slots.partition_point(|&(expires, _)| expires <= now);
                slots.drain(..expired);
            });
        }
    }

    /// The only way to the slots of a connection: keeps `first` true and drops what became empty.
    fn change(&mut self, conn: NameId, f: impl FnOnce(&mut VecDeque<(f64, u64)>)) {
        let mut slots = self.by_conn.remove(&conn).unwrap_or_default();
        if let Some(&(expires, _)) = slots.front() {
            self.first.remove(&(Instant(expires), conn));
        }
        f(&mut slots);
        if let Some(&(expires, _)) = slots.front() {
            self.first.insert((Instant(expires), conn));
            self.by_conn.insert(conn, slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SLOT_TTL_MS, Slot, Slots};
    use crate::core::Compat;
    use crate::core::sched::NameId;

    const A: NameId = NameId(1);
    const B: NameId = NameId(2);

    #[test]
    fn a_slot_that_is_never_released_expires_in_a_steady_stream() {
        for (compat, left) in [(Compat::Corrected, 1), (Compat::Recorded, 2)] {
            let mut slots = Slots::new(compat);
            slots.take(A, SLOT_TTL_MS, 0.0);
            slots.take(A, SLOT_TTL_MS, 100_000.0);
            assert_eq!(slots.count(A, 130_000.0), left, "{compat:?}");
        }
    }

    #[test]
    fn a_late_release_takes_nobody_elses_slot() {
        for (compat, left) in [(Compat::Corrected, 1), (Compat::Recorded, 0)] {
            let mut slots = Slots::new(compat);
            let (late, _) = slots.take(A, 1000.0, 0.0);
            slots.take(A, SLOT_TTL_MS, 2000.0);
            slots.give_back(late, 3000.0);
            assert_eq!(slots.count(A, 3000.0), left, "{compat:?}");
        }
    }

    #[test]
    fn a_release_counts_once() {
        let mut slots = Slots::new(Compat::Corrected);
        let (one, _) = slots.take(A, SLOT_TTL_MS, 0.0);
        assert_eq!(slots.take(A, SLOT_TTL_MS, 0.0).1, 2);
        slots.give_back(one, 1.0);
        slots.give_back(one, 1.0);
        assert_eq!(slots.count(A, 1.0), 1);
    }

    #[test]
    fn expiry_is_at_the_instant_and_a_sweep_covers_every_connection() {
        let mut slots = Slots::new(Compat::Corrected);
        slots.take(A, SLOT_TTL_MS, 0.0);
        assert_eq!(slots.count(A, SLOT_TTL_MS - 1.0), 1);
        assert_eq!(slots.count(A, SLOT_TTL_MS), 0);
        assert_eq!(slots.connections(), 1);
        slots.take(B, SLOT_TTL_MS, SLOT_TTL_MS);
        assert_eq!(slots.connections(), 1);
        assert!(!slots.mentions(A));
    }

    #[test]
    fn giving_back_what_was_never_taken_does_nothing() {
        let mut slots = Slots::new(Compat::Corrected);
        slots.give_back_one(A, 0.0);
        assert_eq!(slots.connections(), 0);
        assert!(slots.first.is_empty());
    }

    proptest! {
        /// Against a plain list of slots.
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec((0_u8..4, 0_u32..3, 0_u32..2000), 1..300)) {
            let mut slots = Slots::new(Compat::Corrected);
            let mut model: Vec<Slot> = Vec::new();
            let mut given: Vec<Slot> = Vec::new();
            let mut now = 0.0;
            for (what, conn, amount) in steps {
                let conn = NameId(conn);
                now += f64::from(amount % 50);
                match what {
                    0 | 1 => {
                        let (slot, _) = slots.take(conn, f64::from(amount), now);
                        model.retain(|s| s.expires > now);
                        model.push(slot);
                        given.push(slot);
                    }
                    2 => {
                        if !given.is_empty() {
                            let slot = given.swap_remove(amount as usize % given.len());
                            slots.give_back(slot, now);
                            model.retain(|s| *s != slot);
                        }
                    }
                    _ => {
                        slots.give_back_one(conn, now);
                        let first = model
                            .iter()
                            .enumerate()
                            .filter(|(_, s)| s.conn == conn && s.expires > now)
                            .min_by(|(_, a), (_, b)| (a.expires, a.serial).partial_cmp(&(b.expires, b.serial)).expect("finite"))
                            .map(|(at, _)| at);
                        if let Some(at) = first {
                            model.remove(at);
                        }
                    }
                }
                for conn in [NameId(0), NameId(1), NameId(2)] {
                    let alive = model.iter().filter(|s| s.conn == conn && s.expires > now).count();
                    prop_assert_eq!(slots.count(conn, now), alive);
                }
                prop_assert_eq!(slots.first.len(), slots.by_conn.len());
            }
        }
    }
}
