//! Burn rate: how fast a budget is being used up and when it will be gone. Owns the smoothing; history and budget come
//! from the caller.

use super::js_max;
use super::sliding::bucket_index;

/// Weight of the newest rate in the moving average.
const ALPHA: f64 = 0.3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurnRate {
    pub tokens_per_second: f64,
    /// `None`: not shrinking, or the budget is unknown.
    pub time_to_exhaustion_ms: Option<f64>,
}

impl BurnRate {
    const NONE: Self = Self {
        tokens_per_second: 0.0,
        time_to_exhaustion_ms: None,
    };

    fn new(rate: f64, remaining: Option<f64>) -> Self {
        let tokens_per_second = js_max(0.0, rate);
        let time_to_exhaustion_ms = remaining
            .filter(|left| tokens_per_second > 0.0 && *left >= 0.0)
            .map(|left| left / tokens_per_second * 1000.0);
        Self {
            tokens_per_second,
            time_to_exhaustion_ms,
        }
    }
}

/// Moving average of the rates between consecutive `(ts in ms, consumed so far)` samples. Pairs with no time between them
/// (or time running backwards) say nothing and are skipped.
#[must_use]
pub fn from_history(history: &[(f64, f64)], remaining: Option<f64>) -> BurnRate {
    let mut average: Option<f64> = None;
    for pair in history.windows(2) {
        let seconds = (pair[1].0 - pair[0].0) / 1000.0;
        if seconds <= 0.0 {
            continue;
        }
        let rate = (pair[1].1 - pair[0].1) / seconds;
        average = Some(average.map_or(rate, |before| ALPHA * rate + (1.0 - ALPHA) * before));
    }
    average.map_or(BurnRate::NONE, |rate| BurnRate::new(rate, remaining))
}

/// Rate since the current bucket of the window began (at least 1 ms ago).
#[must_use]
pub fn from_window(consumed_total: f64, window: f64, now: f64, remaining: Option<f64>) -> BurnRate {
    if window <= 0.0 || consumed_total <= 0.0 {
        return BurnRate::NONE;
    }
    let elapsed = js_max(1.0, now - bucket_index(now, window) * window);
    BurnRate::new(consumed_total / (elapsed / 1000.0), remaining)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "results are equal to the last bit")]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_two_usable_samples_give_nothing() {
        assert_eq!(from_history(&[], Some(5.0)), BurnRate::NONE);
        assert_eq!(from_history(&[(1.0, 1.0)], Some(5.0)), BurnRate::NONE);
        assert_eq!(
            from_history(&[(1.0, 1.0), (1.0, 9.0)], Some(5.0)),
            BurnRate::NONE
        );
    }

    #[test]
    fn the_average_leans_to_the_newest_rate() {
        let rate = from_history(&[(0.0, 0.0), (1000.0, 10.0), (2000.0, 30.0)], Some(26.0));
        assert_eq!(rate.tokens_per_second, 13.0);
        assert_eq!(rate.time_to_exhaustion_ms, Some(2000.0));
    }

    #[test]
    fn a_shrinking_counter_is_no_negative_rate() {
        let rate = from_history(&[(0.0, 10.0), (1000.0, 0.0)], Some(5.0));
        assert_eq!(rate, BurnRate::NONE);
    }

    #[test]
    fn a_window_that_just_began_counts_as_one_ms() {
        assert_eq!(
            from_window(5.0, 1000.0, 2000.0, None).tokens_per_second,
            5000.0
        );
        assert_eq!(from_window(5.0, 0.0, 2000.0, Some(1.0)), BurnRate::NONE);
    }
}
