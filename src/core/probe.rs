//! When a benched key may be asked whether it works again. Asking is the host's; this file only paces it.

use rustc_hash::FxHashMap;

use super::time::{MINUTE, SECOND};

/// A bench that ends sooner than this is not worth a probe.
const MIN_REMAINING: f64 = MINUTE;
/// Keys seen in the same pass are spread over this span.
const FIRST_SPREAD: f64 = 45.0 * SECOND;
/// Waits after a probe that found the key still refused; the last one repeats.
const BACK_OFF: [f64; 4] = [2.0 * MINUTE, 4.0 * MINUTE, 8.0 * MINUTE, 15.0 * MINUTE];

/// Whether a guessed bench was served long enough and still lasts long enough.
#[must_use]
pub fn is_ripe(expires_at: f64, set_at: Option<f64>, now: f64) -> bool {
    let half_served = set_at.is_none_or(|set_at| now - set_at >= (expires_at - set_at) / 2.0);
    expires_at - now >= MIN_REMAINING && half_served
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    next_at: f64,
    failures: usize,
}

/// What to do with a key in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Never seen: schedule it.
    New,
    Wait,
    Due,
}

/// The pace of every benched key.
#[derive(Debug, Default)]
pub struct Pacing(FxHashMap<u64, Pace>);

fn bits(key: f64) -> u64 {
    (key + 0.0).to_bits()
}

impl Pacing {
    #[must_use]
    pub fn turn(&self, key: f64, now: f64) -> Turn {
        match self.0.get(&bits(key)) {
            None => Turn::New,
            Some(pace) if now < pace.next_at => Turn::Wait,
            Some(_) => Turn::Due,
        }
    }

    /// A first probe within the spread; `jitter` is a random number from 0 to 1.
    pub fn schedule(&mut self, key: f64, now: f64, jitter: f64) {
        let next_at = now + (jitter * FIRST_SPREAD).floor();
        self.0.insert(
            bits(key),
            Pace {
                next_at,
                failures: 0,
            },
        );
    }

    pub fn succeeded(&mut self, key: f64) {
        self.0.remove(&bits(key));
    }

    pub fn failed(&mut self, key: f64, now: f64) {
        let pace = self.0.entry(bits(key)).or_insert(Pace {
            next_at: now,
            failures: 0,
        });
        pace.next_at = now + BACK_OFF[pace.failures.min(BACK_OFF.len() - 1)];
        pace.failures += 1;
    }

    /// Forgets every key that has nothing to probe any more.
    pub fn keep_only(&mut self, mut benched: impl FnMut(f64) -> bool) {
        self.0.retain(|key, _| benched(f64::from_bits(*key)));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ripe_after_half_and_with_a_minute_left() {
        assert!(!is_ripe(600_000.0, Some(0.0), 299_999.0));
        assert!(is_ripe(600_000.0, Some(0.0), 300_000.0));
        assert!(is_ripe(600_000.0, None, 0.0));
        assert!(is_ripe(600_000.0, Some(0.0), 540_000.0));
        assert!(!is_ripe(600_000.0, Some(0.0), 540_001.0));
    }

    #[test]
    fn backs_off_up_to_a_quarter_of_an_hour() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.turn(1.0, 0.0), Turn::New);
        pacing.schedule(1.0, 0.0, 0.5);
        assert_eq!(pacing.turn(1.0, 22_499.0), Turn::Wait);
        assert_eq!(pacing.turn(1.0, 22_500.0), Turn::Due);
        let mut now = 22_500.0;
        for minutes in [2.0, 4.0, 8.0, 15.0, 15.0] {
            pacing.failed(1.0, now);
            assert_eq!(pacing.turn(1.0, now + minutes * MINUTE - 1.0), Turn::Wait);
            now += minutes * MINUTE;
            assert_eq!(pacing.turn(1.0, now), Turn::Due);
        }
        pacing.keep_only(|_| false);
        assert_eq!(pacing.turn(1.0, now), Turn::New);
    }
}
