//! When a refused key could be let through again if nobody spent anything: the sliding counter alone, run forward. Owns
//! that estimate; a provider's own reset is not its concern.

use super::Policy;
use super::fair_share::{DimensionState, blocking_bounds};
use super::sliding::{self, Pair};

/// One dimension of a refusal, with the counters behind it.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub state: DimensionState,
    pub own: Pair,
    /// Of all keys; `None` where the provider's own signal is the total.
    pub total: Option<Pair>,
    /// Window length in ms.
    pub window: f64,
}

/// The latest of the times at which each blocking counter clears; `None` when one does not clear by itself.
pub fn all_clear_at(
    dimensions: impl IntoIterator<Item = Counted>,
    weight: f64,
    policy: Policy,
    threshold: f64,
    now: f64,
) -> Option<f64> {
    let mut latest: Option<f64> = None;
    for Counted {
        state,
        own,
        total,
        window,
    } in dimensions
    {
        let bounds = blocking_bounds(&state, weight, policy, threshold);
        for (pair, bound) in [(Some(own), bounds.own), (total, bounds.total)] {
            let Some(bound) = bound else { continue };
            let at = clears_at(pair?, bound, now, window)?;
            latest = Some(latest.map_or(at, |before| before.max(at)));
        }
    }
    latest
}

/// The two buckets that let a counter of this value clear as late as any: where only the value is known.
#[must_use]
pub fn slowest(value: f64) -> Pair {
    Pair {
        curr: value,
        prev: 0.0,
    }
}

/// Earliest time (epoch ms, > `now`) at which the counter reads below `bound`; `None` when it never will (a bound of zero
/// or less, or values that are no numbers).
#[must_use]
pub fn clears_at(pair: Pair, bound: f64, now: f64, window: f64) -> Option<f64> {
    let sane = pair.curr.is_finite() && pair.prev.is_finite() && bound.is_finite() && window > 0.0;
    if !sane || bound <= 0.0 {
        return None;
    }
    let start = sliding::bucket_index(now, window) * window;
    // Within this bucket the previous one fades; in the next one the current one does; after that both are gone.
    let in_this =
        (pair.curr < bound).then(|| start + window * (1.0 - (bound - pair.curr) / pair.prev));
    let guess = in_this.unwrap_or_else(|| start + window + window * (1.0 - bound / pair.curr));
    Some(settle(pair, bound, now, start, window, guess))
}

/// Turns the exact crossing into the first whole ms at which the counter itself (with its rounding) agrees.
fn settle(pair: Pair, bound: f64, now: f64, start: f64, window: f64, guess: f64) -> f64 {
    let mut at = guess.floor().max(now + 1.0);
    for _ in 0..4 {
        if value_at(pair, at, start, window) < bound {
            return at;
        }
        at += 1.0;
    }
    // Rounding at astronomic magnitudes: the end of the next bucket is certain.
    start + 2.0 * window
}

/// The counter at `at`, given that nothing is added after the bucket that began at `start`.
fn value_at(pair: Pair, at: f64, start: f64, window: f64) -> f64 {
    let pair = match sliding::bucket_index(at, window) - sliding::bucket_index(start, window) {
        0.0 => pair,
        1.0 => Pair {
            prev: pair.curr,
            curr: 0.0,
        },
        _ => Pair::default(),
    };
    sliding::value(pair, at, window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: f64 = 3_600_000.0;

    #[test]
    fn nothing_clears_a_bound_of_zero() {
        assert_eq!(
            clears_at(
                Pair {
                    curr: 1.0,
                    prev: 0.0
                },
                0.0,
                0.0,
                WINDOW
            ),
            None
        );
        assert_eq!(
            clears_at(
                Pair {
                    curr: f64::INFINITY,
                    prev: 0.0
                },
                5.0,
                0.0,
                WINDOW
            ),
            None
        );
    }

    #[test]
    fn a_full_bucket_clears_in_the_next_one() {
        // 10 of 10 used: below 10 one ms after the next bucket began.
        assert_eq!(
            clears_at(
                Pair {
                    curr: 10.0,
                    prev: 0.0
                },
                10.0,
                5.0,
                WINDOW
            ),
            Some(WINDOW + 1.0)
        );
        // Twice the bound: half of the next bucket must pass.
        assert_eq!(
            clears_at(
                Pair {
                    curr: 20.0,
                    prev: 0.0
                },
                10.0,
                5.0,
                WINDOW
            ),
            Some(WINDOW * 1.5 + 1.0)
        );
    }

    proptest! {
        #[test]
        fn no_split_of_a_value_clears_later_than_the_slowest(
            curr in 0.0..50.0_f64, prev in 0.0..50.0_f64, bound in 0.5..60.0_f64, now in 0.0..600.0_f64,
        ) {
            let pair = Pair { curr, prev };
            let value = sliding::value(pair, now, WINDOW);
            prop_assume!(value >= bound);
            let known = clears_at(pair, bound, now, WINDOW).unwrap();
            let latest = clears_at(slowest(value), bound, now, WINDOW).unwrap();
            prop_assert!(known <= latest + 1.0, "{known} {latest}");
        }

        #[test]
        fn the_answer_is_the_first_time_below(
            curr in 0.0..50.0_f64, prev in 0.0..50.0_f64, bound in 0.5..60.0_f64, now in 0.0..600.0_f64,
        ) {
            let (window, now) = (1000.0, now.floor());
            let pair = Pair { curr, prev };
            prop_assume!(sliding::value(pair, now, window) >= bound);
            let first = (1..3000).map(|ms| now + f64::from(ms)).find(|at| value_at(pair, *at, 0.0, window) < bound);
            let answer = clears_at(pair, bound, now, window).unwrap();
            let first = first.unwrap();
            prop_assert!(answer >= first && answer - first <= 1.0, "{answer} for {first}");
        }
    }
}
