//! Account-wide caps of providers, as they publish them. Facts only: how a cap is overridden is `core::env_caps`.

/// What an account-wide cap counts. All three are per platform and key, over all models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountCap {
    /// Requests since midnight UTC.
    DailyRequests,
    /// Requests of the last minute.
    MinuteRequests,
    /// Billed tokens since midnight UTC.
    DailyTokens,
}

impl AccountCap {
    pub const ALL: [Self; 3] = [Self::DailyRequests, Self::MinuteRequests, Self::DailyTokens];

    /// The environment variable of a platform's cap starts with this; the platform in upper case follows.
    #[must_use]
    pub const fn env_prefix(self) -> &'static str {
        match self {
            Self::DailyRequests => "PROVIDER_DAILY_REQUEST_CAP_",
            Self::MinuteRequests => "PROVIDER_MINUTE_REQUEST_CAP_",
            Self::DailyTokens => "PROVIDER_DAILY_TOKEN_CAP_",
        }
    }

    /// The column of `api_keys` with an account's own cap, in hosts that have it.
    #[must_use]
    pub const fn key_column(self) -> &'static str {
        match self {
            Self::DailyRequests => "provider_rpd_limit",
            Self::MinuteRequests => "provider_rpm_limit",
            Self::DailyTokens => "provider_tpd_limit",
        }
    }
}

/// (platform, what it caps, the published figure).
pub const DEFAULT_CAPS: &[(&str, AccountCap, f64)] = &[
    ("openrouter", AccountCap::DailyRequests, 1000.0),
    ("modelscope", AccountCap::DailyRequests, 1800.0),
    ("nvidia", AccountCap::MinuteRequests, 40.0),
    ("navy", AccountCap::DailyTokens, 150_000.0),
];

/// Platforms whose models bill a multiple of the tokens they use.
pub const BILLS_BY_MULTIPLIER: &[&str] = &["navy"];

/// The published cap; `None` for a platform without one. Platform names are compared exactly.
#[must_use]
pub fn default_cap(platform: &str, cap: AccountCap) -> Option<f64> {
    DEFAULT_CAPS
        .iter()
        .find(|(name, kind, _)| *name == platform && *kind == cap)
        .map(|&(_, _, limit)| limit)
}

#[cfg(test)]
mod tests {
    use super::{AccountCap, BILLS_BY_MULTIPLIER, DEFAULT_CAPS, default_cap};

    #[test]
    fn every_row_is_found_once_and_is_a_real_cap() {
        for &(platform, cap, limit) in DEFAULT_CAPS {
            assert_eq!(default_cap(platform, cap), Some(limit), "{platform}");
            assert!(limit > 0.0 && limit.fract() == 0.0, "{platform}");
            let rows = DEFAULT_CAPS
                .iter()
                .filter(|row| row.0 == platform && row.1 == cap);
            assert_eq!(rows.count(), 1, "{platform} is listed twice");
        }
    }

    #[test]
    fn other_platforms_have_none() {
        for platform in [
            "",
            "OpenRouter",
            "NAVY",
            "constructor",
            "__proto__",
            "toString",
            "groq",
        ] {
            for cap in AccountCap::ALL {
                assert_eq!(default_cap(platform, cap), None, "{platform}");
            }
        }
    }

    #[test]
    fn platforms_that_bill_by_multiplier_have_a_token_cap() {
        for platform in BILLS_BY_MULTIPLIER {
            assert!(
                default_cap(platform, AccountCap::DailyTokens).is_some(),
                "{platform}"
            );
        }
    }
}
