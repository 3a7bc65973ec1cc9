//! Which cap applies to a key: its own row, the environment, or the provider's published figure.
//!
//! The environment is handed in as the text that was read at this very call; nothing here reads or remembers it.

use super::js_number::{js_number, js_trim};
use crate::providers::caps::{AccountCap, default_cap};

/// The general concurrency variable; `<NAME>_<PLATFORM>` is the specific one.
pub const CONCURRENCY_ENV: &str = "MAX_CONCURRENT_REQUESTS_PER_KEY";

/// The name of a platform's variable: `prefix` and the platform in upper case, as JavaScript's `toUpperCase` has it.
#[must_use]
pub fn platform_env_name(prefix: &str, platform: &str) -> String {
    format!("{prefix}{}", platform.to_uppercase())
}

/// Requests in flight that one key may have. A specific variable that is set, even to nonsense, hides the general one.
/// `None` = no limit. Only positive whole numbers count.
#[must_use]
pub fn key_concurrency_limit(specific: Option<&str>, general: Option<&str>) -> Option<f64> {
    positive_integer(specific.or(general)?)
}

/// A text that JavaScript reads as a positive whole number.
#[must_use]
pub fn positive_integer(text: &str) -> Option<f64> {
    let number = js_number(text);
    (number.is_finite() && number > 0.0 && number.fract() == 0.0).then_some(number)
}

/// The account-wide cap of a key; `None` = no cap.
///
/// - `key_row`: the account's own figure from its `api_keys` row. It wins; 0 lifts the cap.
/// - `env`: the platform's variable. A finite number >= 0 counts, 0 lifts the cap; anything else is as if unset.
#[must_use]
pub fn account_cap(
    cap: AccountCap,
    platform: &str,
    env: Option<&str>,
    key_row: Option<f64>,
) -> Option<f64> {
    if let Some(own) = key_row.filter(|own| !own.is_nan()) {
        return none_if_zero(own);
    }
    // A blank variable is unset, although `Number('')` is 0: an emptied line in a .env file must not lift a cap.
    let from_env = env
        .filter(|text| !js_trim(text).is_empty())
        .map(js_number)
        .filter(|limit| limit.is_finite() && *limit >= 0.0);
    match from_env {
        Some(limit) => none_if_zero(limit),
        None => default_cap(platform, cap),
    }
}

fn none_if_zero(limit: f64) -> Option<f64> {
    (limit != 0.0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::{account_cap, key_concurrency_limit, platform_env_name};
    use crate::providers::caps::AccountCap;

    #[test]
    fn concurrency_takes_positive_whole_numbers() {
        for (text, expected) in [
            ("", None),
            (" ", None),
            ("0", None),
            ("-1", None),
            ("1.5", None),
            ("1e2", Some(100.0)),
            ("0x10", Some(16.0)),
            (" 3 ", Some(3.0)),
            ("abc", None),
            ("Infinity", None),
            ("1e21", Some(1e21)),
            ("1e-1", None),
        ] {
            assert_eq!(
                key_concurrency_limit(None, Some(text)),
                expected,
                "{text:?}"
            );
            assert_eq!(
                key_concurrency_limit(Some(text), Some("5")),
                expected,
                "{text:?} hides the general"
            );
        }
        assert_eq!(key_concurrency_limit(None, None), None);
    }

    #[test]
    fn environment_overrides_the_table() {
        let cap = |env| account_cap(AccountCap::DailyRequests, "openrouter", env, None);
        assert_eq!(cap(None), Some(1000.0));
        for nonsense in ["", " ", "-1", "abc", "Infinity", "1_000", "\u{85}6"] {
            assert_eq!(cap(Some(nonsense)), Some(1000.0), "{nonsense:?}");
        }
        for (text, expected) in [
            ("0", None),
            ("-0", None),
            ("0.0", None),
            ("1.5", Some(1.5)),
            ("1e2", Some(100.0)),
        ] {
            assert_eq!(cap(Some(text)), expected, "{text:?}");
        }
        assert_eq!(
            account_cap(AccountCap::DailyRequests, "constructor", None, None),
            None
        );
    }

    #[test]
    fn the_key_row_wins() {
        let cap = |own| account_cap(AccountCap::DailyRequests, "openrouter", Some("4"), own);
        assert_eq!(cap(Some(2.0)), Some(2.0));
        assert_eq!(cap(Some(0.0)), None);
        assert_eq!(
            cap(Some(-1.0)),
            Some(-1.0),
            "a negative figure closes the key, as recorded"
        );
        assert_eq!(cap(None), Some(4.0));
        assert_eq!(cap(Some(f64::NAN)), Some(4.0));
    }

    #[test]
    fn names_follow_javascript_upper_case() {
        assert_eq!(platform_env_name("P_", "groß"), "P_GROSS");
        assert_eq!(platform_env_name("P_", "ﬁne"), "P_FINE");
        assert_eq!(platform_env_name("P_", "open-router"), "P_OPEN-ROUTER");
    }
}
