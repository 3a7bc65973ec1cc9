//! The sliding counter: two fixed buckets, the older one fading out linearly. Owns the arithmetic and nothing else; the
//! order of operations is the order of the recorded runs, so that results are equal to the last bit.

use super::sum::CompensatedSum;

/// Window lengths in ms by name; the only five there are.
pub const WINDOWS: [(&str, f64); 5] = [
    ("hourly", 3_600_000.0),
    ("5h", 18_000_000.0),
    ("daily", 86_400_000.0),
    ("weekly", 604_800_000.0),
    ("monthly", 2_592_000_000.0),
];

/// Length of a window in ms; NaN for a name that is none (its counter reads as NaN and cannot be written).
#[must_use]
pub fn window_ms(window: &str) -> f64 {
    WINDOWS
        .iter()
        .find(|(name, _)| *name == window)
        .map_or(f64::NAN, |(_, ms)| *ms)
}

/// Number of the bucket that holds `now` (epoch ms).
#[must_use]
pub fn bucket_index(now: f64, window: f64) -> f64 {
    (now / window).floor()
}

/// The two buckets of one counter, as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    pub curr: f64,
    pub prev: f64,
}

/// The two buckets of several counters together.
#[must_use]
pub fn total(pairs: &[Pair]) -> Pair {
    let sum = |bucket: fn(&Pair) -> f64| pairs.iter().map(bucket).collect::<CompensatedSum>();
    Pair {
        curr: sum(|pair| pair.curr).total(),
        prev: sum(|pair| pair.prev).total(),
    }
}

/// Value of the counter at `now`: what is left of the previous bucket plus the current one.
#[must_use]
pub fn value(pair: Pair, now: f64, window: f64) -> f64 {
    let elapsed = now - bucket_index(now, window) * window;
    pair.prev * (1.0 - elapsed / window) + pair.curr
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "results are equal to the last bit")]
mod tests {
    use super::*;

    #[test]
    fn the_previous_bucket_fades_linearly() {
        let window = window_ms("5h");
        let pair = Pair {
            curr: 7.0,
            prev: 100.0,
        };
        let start = bucket_index(1_800_000_000_000.0, window) * window;
        assert_eq!(value(pair, start, window), 107.0);
        assert_eq!(value(pair, start + window / 4.0, window), 82.0);
        assert_eq!(value(pair, start + window / 2.0, window), 57.0);
    }

    #[test]
    fn unknown_windows_have_no_length() {
        assert!(window_ms("yearly").is_nan());
        assert!(bucket_index(1.0, window_ms("yearly")).is_nan());
        assert!(value(Pair::default(), 1.0, f64::NAN).is_nan());
    }
}
