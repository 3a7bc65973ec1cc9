//! Deficit round robin by weight, then the less loaded of the first two. Owns the order of the targets that may be
//! chosen; which ones may be is decided before.

use rustc_hash::{FxHashMap, FxHashSet};

use super::NameId;
use crate::core::Compat;

/// A target that may be chosen in this round.
#[derive(Debug, Clone, Copy)]
pub struct Entrant {
    pub key: NameId,
    /// Positive and finite: see [`effective_weight`].
    pub weight: f64,
    /// Requests in flight on its connection; 0 without a connection.
    pub in_flight: usize,
}

/// A weight that is missing, not a number, zero or negative counts as 1: such a target still takes part.
#[must_use]
pub fn effective_weight(weight: f64) -> f64 {
    if weight.is_finite() && weight > 0.0 {
        weight
    } else {
        1.0
    }
}

/// Keys that left a combo keep their credit (they may come back), but not without bound.
const MAX_IDLE_KEYS: usize = 1024;

/// What each target of one combo is owed, in picks.
#[derive(Debug, Default)]
pub struct Deficits(FxHashMap<NameId, f64>);

impl Deficits {
    /// One pick. Gives the positions of `entrants` in dispatch order; a key that occurs twice is dispatched once.
    ///
    /// The runs charge the target that leads by credit even when its less loaded neighbour goes instead; whenever
    /// requests overlap, unequal weights then end as equal shares. Corrected: the one that goes pays, and a neighbour
    /// only goes while it is itself owed something. That bounds every deficit by -1 and n - 1, so that after any
    /// number of picks each target is within n picks of its weight, whenever (or if ever) requests are released.
    pub fn round(&mut self, entrants: &[Entrant], compat: Compat) -> Vec<usize> {
        // One target needs no credit, and must not spend what it is owed elsewhere.
        if entrants.len() < 2 {
            return (0..entrants.len()).collect();
        }
        let total: f64 = entrants.iter().map(|e| e.weight).sum();
        for entrant in entrants {
            *self.0.entry(entrant.key).or_insert(0.0) += entrant.weight / total;
        }
        let (mut leader, mut most) = (0, f64::NEG_INFINITY);
        for (at, entrant) in entrants.iter().enumerate() {
            let deficit = self.get(entrant.key);
            if deficit > most {
                (leader, most) = (at, deficit);
            }
        }
        let mut order = Vec::with_capacity(entrants.len());
        order.push(leader);
        order.extend((0..entrants.len()).filter(|&at| entrants[at].key != entrants[leader].key));
        if let Some(&neighbour) = order.get(1) {
            let lighter = entrants[neighbour].in_flight < entrants[leader].in_flight;
            if lighter && (compat.is_recorded() || self.get(entrants[neighbour].key) > 0.0) {
                order.swap(0, 1);
            }
        }
        let payer = if compat.is_recorded() {
            leader
        } else {
            order[0]
        };
        if let Some(deficit) = self.0.get_mut(&entrants[payer].key) {
            *deficit -= 1.0;
        }
        self.forget_idle(entrants);
        order
    }

    /// What `key` is owed; 0 for one that never took part.
    #[must_use]
    pub fn get(&self, key: NameId) -> f64 {
        self.0.get(&key).copied().unwrap_or(0.0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (NameId, f64)> + '_ {
        self.0.iter().map(|(&key, &deficit)| (key, deficit))
    }

    fn forget_idle(&mut self, entrants: &[Entrant]) {
        if self.0.len() > MAX_IDLE_KEYS + entrants.len() {
            let present: FxHashSet<NameId> = entrants.iter().map(|e| e.key).collect();
            self.0.retain(|key, _| present.contains(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Deficits, Entrant, MAX_IDLE_KEYS, effective_weight};
    use crate::core::Compat;
    use crate::core::sched::NameId;

    fn entrants(weights: &[f64], in_flight: &[usize]) -> Vec<Entrant> {
        weights
            .iter()
            .zip(in_flight)
            .enumerate()
            .map(|(at, (&weight, &in_flight))| Entrant {
                key: NameId(at as u32),
                weight: effective_weight(weight),
                in_flight,
            })
            .collect()
    }

    #[test]
    fn weights_that_mean_nothing_count_as_one() {
        for weight in [f64::NAN, f64::INFINITY, 0.0, -3.0] {
            assert_eq!(effective_weight(weight), 1.0);
        }
        assert_eq!(effective_weight(0.25), 0.25);
    }

    #[test]
    fn the_heavier_goes_more_often_and_credit_carries_over() {
        let mut deficits = Deficits::default();
        let round = entrants(&[3.0, 1.0], &[0, 0]);
        let picks: Vec<usize> = (0..8)
            .map(|_| deficits.round(&round, Compat::Corrected)[0])
            .collect();
        assert_eq!(picks, [0, 0, 1, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn recorded_charges_the_leader_and_corrected_the_one_that_goes() {
        let busy = entrants(&[3.0, 1.0], &[1, 0]);
        let mut recorded = Deficits::default();
        assert_eq!(recorded.round(&busy, Compat::Recorded), [1, 0]);
        assert_eq!(
            (recorded.get(NameId(0)), recorded.get(NameId(1))),
            (-0.25, 0.25)
        );
        let mut corrected = Deficits::default();
        assert_eq!(corrected.round(&busy, Compat::Corrected), [1, 0]);
        assert_eq!(
            (corrected.get(NameId(0)), corrected.get(NameId(1))),
            (0.75, -0.75)
        );
        // The neighbour is owed nothing now: load alone does not let it go again.
        assert_eq!(corrected.round(&busy, Compat::Corrected), [0, 1]);
    }

    #[test]
    fn one_entrant_keeps_its_credit_and_none_is_no_order() {
        let mut deficits = Deficits::default();
        assert_eq!(
            deficits.round(&entrants(&[5.0], &[9]), Compat::Corrected),
            [0]
        );
        assert!(deficits.round(&[], Compat::Corrected).is_empty());
        assert_eq!(deficits.iter().count(), 0);
    }

    #[test]
    fn keys_that_left_do_not_pile_up() {
        let mut deficits = Deficits::default();
        for at in 0..5000_u32 {
            let pair = [0, 1].map(|n| Entrant {
                key: NameId(2 * at + n),
                weight: 1.0,
                in_flight: 0,
            });
            deficits.round(&pair, Compat::Corrected);
        }
        assert!(deficits.iter().count() <= MAX_IDLE_KEYS + 2);
    }

    proptest! {
        /// Whatever the load does, each target stays within n picks of its weight.
        #[test]
        fn shares_follow_weights_under_any_load(
            weights in prop::collection::vec(0.1_f64..100.0, 2..8),
            loads in prop::collection::vec(0_usize..4, 16..64),
        ) {
            let n = weights.len();
            let total: f64 = weights.iter().sum();
            let mut deficits = Deficits::default();
            let mut picks = vec![0.0_f64; n];
            for turn in 0..2000 {
                let load: Vec<usize> = (0..n).map(|at| loads[(turn * 7 + at * 3) % loads.len()]).collect();
                picks[deficits.round(&entrants(&weights, &load), Compat::Corrected)[0]] += 1.0;
            }
            for (picked, weight) in picks.iter().zip(&weights) {
                prop_assert!((picked - 2000.0 * weight / total).abs() <= n as f64);
            }
        }
    }
}
