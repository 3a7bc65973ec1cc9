//! The two decisions behind every gate: is there room for one more request, and for so many more tokens.
//!
//! Gates, admission and explanations all come here, so that they cannot disagree. The comparisons are written as the
//! negation of "full": a limit that is not a number then stops nothing, as in the recorded behaviour, and corrected
//! callers clamp such limits before they come.

/// Requests used and in flight against a limit that is reached, not exceeded.
#[must_use]
pub fn admits_request(used: f64, in_flight: f64, limit: f64) -> bool {
    let full = used + in_flight >= limit;
    !full
}

/// Tokens used, in flight and asked for against a limit that may be reached.
#[must_use]
pub fn admits_tokens(used: f64, in_flight: f64, wanted: f64, limit: f64) -> bool {
    let over = used + in_flight + wanted > limit;
    !over
}

/// A count that makes no sense never opens a gate: NaN and negative become 0, fractions go up, infinity becomes the
/// largest integer that a double counts exactly.
#[must_use]
pub fn clamp_tokens(tokens: f64) -> f64 {
    if tokens.is_nan() || tokens <= 0.0 {
        0.0
    } else if tokens.is_infinite() {
        9_007_199_254_740_991.0
    } else {
        tokens.ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stop_at_the_limit_and_tokens_above_it() {
        assert!(admits_request(1.0, 1.0, 3.0));
        assert!(!admits_request(2.0, 1.0, 3.0));
        assert!(!admits_request(0.0, 0.0, 0.0));
        assert!(admits_tokens(1.0, 1.0, 1.0, 3.0));
        assert!(!admits_tokens(1.0, 1.0, 1.5, 3.0));
    }

    #[test]
    fn senseless_counts_never_open_a_gate() {
        assert_eq!(clamp_tokens(f64::NAN), 0.0);
        assert_eq!(clamp_tokens(-5.0), 0.0);
        assert_eq!(clamp_tokens(0.1), 1.0);
        assert_eq!(clamp_tokens(f64::INFINITY), 9_007_199_254_740_991.0);
    }
}
