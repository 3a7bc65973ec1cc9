//! How long a route is benched after an error, and how much that verdict is worth.

use super::time::{DAY, HOUR, MINUTE, SECOND};

/// A bench of the ladder, by the number of hits within a day.
pub const LADDER: [f64; 4] = [2.0 * MINUTE, 10.0 * MINUTE, HOUR, DAY];
/// A bench after a refusal that proves no spent day quota.
pub const TRANSIENT: f64 = 90.0 * SECOND;
/// The longest bench where no limit is known: it is a guess.
pub const UNKNOWN_LIMIT_MAX: f64 = 10.0 * MINUTE;
/// Hits of an unknown limit within this span make a pattern.
pub const UNKNOWN_LIMIT_WINDOW: f64 = HOUR;
const UNKNOWN_LIMIT_HITS: usize = 2;
/// A local endpoint is back as soon as its process is.
pub const LOCAL_ENDPOINT: f64 = 5.0 * SECOND;
pub const PAYMENT_REQUIRED: f64 = DAY;
pub const MODEL_FORBIDDEN: f64 = DAY;
pub const AUTH_FAILURE: f64 = 5.0 * MINUTE;

/// Where a bench comes from. Only heuristic ones may be lifted early by a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    Heuristic,
    Authoritative,
    Credit,
    Tier,
}

impl Source {
    pub const ALL: [Self; 4] = [
        Self::Heuristic,
        Self::Authoritative,
        Self::Credit,
        Self::Tier,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Heuristic => "heuristic",
            Self::Authoritative => "authoritative",
            Self::Credit => "credit",
            Self::Tier => "tier",
        }
    }
}

/// A bench that was decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bench {
    pub duration: f64,
    pub source: Source,
}

/// The ladder step after so many hits within a day, the present one included.
#[must_use]
pub fn ladder_step(hits: usize) -> f64 {
    LADDER[hits.clamp(1, LADDER.len()) - 1]
}

/// Whether repeated refusals without a known limit look like a spent quota.
#[must_use]
pub fn unknown_limit_is_a_pattern(hits_within_window: usize) -> bool {
    hits_within_window >= UNKNOWN_LIMIT_HITS
}

/// What the provider asks for counts when it is longer than our guess, up to a day.
#[must_use]
pub fn settle(guess: f64, retry_after: Option<f64>) -> Bench {
    match retry_after {
        Some(asked) if asked > guess => Bench {
            duration: asked.min(DAY),
            source: Source::Authoritative,
        },
        _ => Bench {
            duration: guess,
            source: Source::Heuristic,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladder_ends_at_a_day() {
        assert_eq!(
            [1, 2, 3, 4, 5, 99].map(ladder_step),
            [LADDER[0], LADDER[1], LADDER[2], DAY, DAY, DAY]
        );
    }

    #[test]
    fn only_a_longer_request_of_the_provider_counts() {
        assert_eq!(
            settle(TRANSIENT, Some(TRANSIENT)),
            Bench {
                duration: TRANSIENT,
                source: Source::Heuristic
            }
        );
        assert_eq!(settle(TRANSIENT, Some(f64::NAN)).source, Source::Heuristic);
        assert_eq!(
            settle(TRANSIENT, Some(9e15)),
            Bench {
                duration: DAY,
                source: Source::Authoritative
            }
        );
    }
}
