//! Sharing one provider account between API keys: the pure rules. Owns the words every part of quota sharing uses
//! (policies, windows, dimensions); knows no store, no clock and no signal source.

pub mod burn_rate;
pub mod fair_share;
pub mod plan;
pub mod retry;
pub mod sliding;
pub mod sum;

/// Limits at or below this are "unknown" and never enforced (`Number.EPSILON` in the host's plan catalog).
pub const UNKNOWN_LIMIT: f64 = f64::EPSILON;

/// What a key that used up its share meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Refused.
    Hard,
    /// Let through, but ranked behind others.
    Soft,
    /// Let through as long as the whole account has room.
    Burst,
}

impl Policy {
    /// A stored policy outside the three reads as hard: the safe side for the other keys.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "soft" => Self::Soft,
            "burst" => Self::Burst,
            _ => Self::Hard,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Burst => "burst",
        }
    }
}

/// The text of a dimension key, as counters store it: `<poolId>:<unit>:<window>`.
#[must_use]
pub fn dimension_key(pool_id: &str, unit: &str, window: &str) -> String {
    let mut key = String::with_capacity(pool_id.len() + unit.len() + window.len() + 2);
    key.push_str(pool_id);
    key.push(':');
    key.push_str(unit);
    key.push(':');
    key.push_str(window);
    key
}

/// The pool id under which a model's own counter is kept (unit of the cap, always hourly).
#[must_use]
pub fn model_pool_id(pool_id: &str, model: &str) -> String {
    format!("{pool_id}:model:{model}")
}

/// The weight each key gets when a list gives none: equal parts of 100. `None` when the weights say something (their sum
/// is above zero) or there are no keys.
#[must_use]
#[allow(clippy::cast_precision_loss)] // a count of keys
pub fn equal_weight(weights: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let keys = weights.len();
    let sum: f64 = weights.fold(0.0, |sum, weight| sum + weight);
    (keys > 0 && (sum.is_nan() || sum <= 0.0)).then(|| 100.0 / keys as f64)
}

/// `Math.max` for two numbers: NaN when either is NaN.
pub(crate) fn js_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_policies_read_as_hard() {
        assert_eq!(Policy::parse("BURST"), Policy::Hard);
        assert_eq!(Policy::parse(""), Policy::Hard);
        for policy in [Policy::Hard, Policy::Soft, Policy::Burst] {
            assert_eq!(Policy::parse(policy.as_str()), policy);
        }
    }

    #[test]
    fn weights_that_say_nothing_become_equal() {
        let of = |weights: &[f64]| equal_weight(weights.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0.0, 1.0]), None);
        assert_eq!(of(&[0.0, 0.0, 0.0]), Some(100.0 / 3.0));
        assert_eq!(of(&[50.0, -50.0]), Some(50.0));
        assert_eq!(of(&[f64::NAN]), Some(100.0));
    }

    #[test]
    fn keys_are_plain_concatenation() {
        assert_eq!(dimension_key("a:b", "tokens", "5h"), "a:b:tokens:5h");
        assert_eq!(
            dimension_key(&model_pool_id("p", "m/x"), "usd", "hourly"),
            "p:model:m/x:usd:hourly"
        );
    }
}
