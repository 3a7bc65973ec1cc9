//! How much a router should still favour a model or a key as its quota runs out. Pure numbers; nothing here gates.

/// The ramp of a headroom factor, both 0..1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Remaining share at which the factor starts to fall.
    start: f64,
    /// The factor when nothing remains.
    floor: f64,
}

impl Default for Ramp {
    fn default() -> Self {
        Self {
            start: 0.2,
            floor: 0.1,
        }
    }
}

impl Ramp {
    /// Values outside 0..1, and NaN for "not given", fall back to the defaults.
    #[must_use]
    pub fn new(start: f64, floor: f64) -> Self {
        let default = Self::default();
        let or = |value: f64, fallback| {
            if (0.0..=1.0).contains(&value) {
                value
            } else {
                fallback
            }
        };
        Self {
            start: or(start, default.start),
            floor: or(floor, default.floor),
        }
    }

    /// 1 while at least `start` remains, then linear down to `floor` at nothing left. An unknown share favours nobody: 1.
    #[must_use]
    pub fn factor(self, remaining: f64) -> f64 {
        if remaining.is_nan() {
            return 1.0;
        }
        let remaining = remaining.clamp(0.0, 1.0);
        // A share such as 1 - 0.8 falls short of 0.2 by its rounding alone.
        if remaining + f64::EPSILON >= self.start {
            return 1.0;
        }
        self.floor + (1.0 - self.floor) * (remaining / self.start)
    }
}

/// The factor of a token budget; 1 without one (NaN, 0 or less).
#[must_use]
pub fn headroom_factor(used_tokens: f64, budget_tokens: f64, ramp: Ramp) -> f64 {
    if budget_tokens.is_nan() || budget_tokens <= 0.0 {
        return 1.0;
    }
    ramp.factor((budget_tokens - used_tokens) / budget_tokens)
}

/// The factor of a rate window of which this share is used; NaN = unknown.
#[must_use]
pub fn rate_window_factor(used_fraction: f64, ramp: Ramp) -> f64 {
    ramp.factor(1.0 - used_fraction)
}

/// What a key without an observation is taken to have left.
const UNKNOWN_HEADROOM: f64 = 0.5;

/// Keys, roomiest first; equal ones stay in their order.
pub fn sort_by_headroom(keys: &mut [f64], headroom_of: impl Fn(f64) -> Option<f64>) {
    let room = |key: &f64| headroom_of(*key).unwrap_or(UNKNOWN_HEADROOM);
    keys.sort_by(|a, b| room(b).total_cmp(&room(a)));
}

/// The share that a quota still has, 0..1.
#[must_use]
pub fn remaining_share(limit: f64, remaining: f64) -> f64 {
    (remaining / limit).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::{Ramp, headroom_factor, rate_window_factor, sort_by_headroom};

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn full_until_the_ramp_then_linear() {
        let ramp = Ramp::default();
        for (used, expected) in [
            (0.0, 1.0),
            (80.0, 1.0),
            (90.0, 0.55),
            (95.0, 0.325),
            (100.0, 0.1),
            (200.0, 0.1),
        ] {
            assert!(
                close(headroom_factor(used, 100.0, ramp), expected),
                "{used}"
            );
            assert!(
                close(rate_window_factor(used / 100.0, ramp), expected),
                "{used}"
            );
        }
    }

    #[test]
    fn unknown_favours_nobody() {
        let ramp = Ramp::default();
        for (used, budget) in [
            (f64::NAN, 10.0),
            (5.0, f64::NAN),
            (5.0, 0.0),
            (5.0, -1.0),
            (5.0, f64::INFINITY),
        ] {
            assert!(close(headroom_factor(used, budget, ramp), 1.0));
        }
        assert!(close(rate_window_factor(f64::NAN, ramp), 1.0));
        assert!(close(
            headroom_factor(f64::INFINITY, f64::INFINITY, ramp),
            1.0
        ));
        assert!(close(headroom_factor(f64::INFINITY, 10.0, ramp), 0.1));
    }

    #[test]
    fn options_outside_their_range_fall_back() {
        assert_eq!(Ramp::new(f64::NAN, 2.0), Ramp::default());
        assert_eq!(Ramp::new(-0.1, f64::INFINITY), Ramp::default());
        assert!(close(Ramp::new(0.5, 0.0).factor(0.25), 0.5));
        assert!(
            close(Ramp::new(0.0, 0.3).factor(0.0), 1.0),
            "a ramp of no length"
        );
    }

    #[test]
    fn keys_by_room() {
        let mut keys = [1.0, 2.0, 3.0, 4.0, 5.0];
        sort_by_headroom(&mut keys, |key| match key as i64 {
            1 => Some(0.2),
            2 => Some(0.9),
            5 => Some(0.5),
            _ => None,
        });
        assert_eq!(keys, [2.0, 3.0, 4.0, 5.0, 1.0]);
    }
}
