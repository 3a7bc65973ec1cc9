//! The rate-limit headers that providers send with a response. A table of facts.

/// What a provider's headers say about one metric.
#[derive(Clone, Copy, Debug)]
pub struct HeaderSpec {
    pub platform: &'static str,
    /// `requests` or `tokens`.
    pub metric: &'static str,
    /// How the quota comes back.
    pub reset_strategy: &'static str,
    pub limit: &'static str,
    pub remaining: &'static str,
    pub reset: &'static str,
}

const REPORTED: &str = "provider_reported";

macro_rules! spec {
    ($platform:literal, $metric:literal, $strategy:expr, $limit:literal, $remaining:literal, $reset:literal) => {
        HeaderSpec {
            platform: $platform,
            metric: $metric,
            reset_strategy: $strategy,
            limit: $limit,
            remaining: $remaining,
            reset: $reset,
        }
    };
}

#[rustfmt::skip]
pub const HEADER_SPECS: &[HeaderSpec] = &[
    spec!("groq", "requests", REPORTED,
        "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    spec!("groq", "tokens", REPORTED,
        "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    spec!("openrouter", "requests", REPORTED,
        "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    spec!("openrouter", "tokens", REPORTED,
        "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    spec!("cerebras", "requests", REPORTED,
        "x-ratelimit-limit-requests-day", "x-ratelimit-remaining-requests-day", "x-ratelimit-reset-requests-day"),
    spec!("cerebras", "tokens", "token_bucket",
        "x-ratelimit-limit-tokens-minute", "x-ratelimit-remaining-tokens-minute", "x-ratelimit-reset-tokens-minute"),
    spec!("modelscope", "requests", REPORTED,
        "modelscope-ratelimit-requests-limit", "modelscope-ratelimit-requests-remaining", "modelscope-ratelimit-requests-reset"),
];

/// The headers that a refusal of any platform may carry.
pub const REFUSAL_LIMIT: &str = "x-ratelimit-limit-requests";
pub const REFUSAL_RESET: &str = "x-ratelimit-reset-requests";
pub const RETRY_AFTER: &str = "retry-after";

pub fn specs_of(platform: &str) -> impl Iterator<Item = &'static HeaderSpec> {
    HEADER_SPECS
        .iter()
        .filter(move |spec| spec.platform == platform)
}

/// Every header that says something about this platform's quota, each once, `retry-after` first.
#[must_use]
pub fn header_names(platform: &str) -> Vec<&'static str> {
    let mut names = vec![RETRY_AFTER, REFUSAL_LIMIT, REFUSAL_RESET];
    for name in specs_of(platform).flat_map(|spec| [spec.limit, spec.remaining, spec.reset]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{HEADER_SPECS, header_names};
    use crate::providers::pools::is_shared_pool;

    #[test]
    fn every_row_is_consistent() {
        for spec in HEADER_SPECS {
            assert!(is_shared_pool(spec.platform), "{}", spec.platform);
            assert!(["requests", "tokens"].contains(&spec.metric));
            let names = header_names(spec.platform);
            for name in [spec.limit, spec.remaining, spec.reset] {
                assert!(names.contains(&name), "{name}");
                assert_eq!(name, name.to_ascii_lowercase());
            }
            let rows = HEADER_SPECS
                .iter()
                .filter(|row| row.platform == spec.platform && row.metric == spec.metric);
            assert_eq!(rows.count(), 1, "{} {}", spec.platform, spec.metric);
        }
        assert_eq!(header_names("custom").len(), 3);
    }
}
