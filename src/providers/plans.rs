//! What providers are known to allow per account: the plan catalog. Facts only; a stored plan of a connection overrides
//! them (see the engine).

use crate::core::share::UNKNOWN_LIMIT;

/// Unit, window, limit of the whole account.
pub type KnownDimension = (&'static str, &'static str, f64);

/// In the order in which `knownProviders` lists them. `UNKNOWN_LIMIT`: the provider has this limit but does not say how
/// high it is; counted, shown, never enforced.
pub const CATALOG: [(&str, &[KnownDimension]); 11] = [
    (
        "codex",
        &[("percent", "5h", 100.0), ("percent", "weekly", 100.0)],
    ),
    (
        "claude",
        &[("percent", "5h", 100.0), ("percent", "weekly", 100.0)],
    ),
    (
        "glm",
        &[
            ("tokens", "5h", UNKNOWN_LIMIT),
            ("tokens", "weekly", UNKNOWN_LIMIT),
        ],
    ),
    (
        "minimax",
        &[
            ("tokens", "5h", UNKNOWN_LIMIT),
            ("tokens", "weekly", UNKNOWN_LIMIT),
        ],
    ),
    ("deepseek", &[("usd", "monthly", UNKNOWN_LIMIT)]),
    (
        "bailian",
        &[
            ("percent", "5h", 100.0),
            ("percent", "weekly", 100.0),
            ("percent", "monthly", 100.0),
        ],
    ),
    ("kimi", &[("requests", "hourly", 1500.0)]),
    (
        "kimi-coding",
        &[
            ("tokens", "5h", UNKNOWN_LIMIT),
            ("tokens", "weekly", UNKNOWN_LIMIT),
        ],
    ),
    ("xiaomi-mimo", &[("tokens", "monthly", 4_100_000_000.0)]),
    ("alibaba", &[("requests", "monthly", 90_000.0)]),
    (
        "grok-cli",
        &[
            ("requests", "daily", 864.0),
            ("tokens", "daily", 18_000_000.0),
            ("requests", "weekly", 6048.0),
            ("tokens", "weekly", 126_000_000.0),
        ],
    ),
];

/// The known plan of a provider, with its name as the table spells it; names are compared exactly.
#[must_use]
pub fn known_plan(provider: &str) -> Option<(&'static str, &'static [KnownDimension])> {
    CATALOG.into_iter().find(|(name, _)| *name == provider)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::share::sliding::window_ms;

    #[test]
    fn every_row_names_a_known_unit_and_window() {
        for (provider, dimensions) in CATALOG {
            assert!(!dimensions.is_empty(), "{provider}");
            for (unit, window, limit) in dimensions {
                assert!(
                    ["percent", "requests", "tokens", "usd"].contains(unit),
                    "{provider} {unit}"
                );
                assert!(window_ms(window) > 0.0, "{provider} {window}");
                assert!(*limit > 0.0, "{provider}");
                assert!(*unit != "percent" || *limit == 100.0, "{provider}");
            }
        }
    }

    #[test]
    fn names_are_exact() {
        assert!(known_plan("kimi").is_some());
        for name in [
            "KIMI",
            "kimi ",
            "",
            "openai",
            "anthropic",
            "constructor",
            "__proto__",
        ] {
            assert!(known_plan(name).is_none(), "{name}");
        }
    }
}
