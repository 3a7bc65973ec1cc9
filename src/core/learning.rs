//! Limits that a provider states in the text of an error. Owns the recorded rule and the choice of rule book; the corrected
//! reading is `stated_limit`. Never guesses, never writes: whether a limit is new is the store's question.

use regex::Regex;
use std::sync::LazyLock;

use super::{Compat, stated_limit};

/// The axis of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    Tpd,
    Tpm,
    Rpd,
    Rpm,
}

impl LimitKind {
    /// In the order in which a text is searched for them.
    pub const ALL: [Self; 4] = [Self::Tpd, Self::Tpm, Self::Rpd, Self::Rpm];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tpd => "tpd",
            Self::Tpm => "tpm",
            Self::Rpd => "rpd",
            Self::Rpm => "rpm",
        }
    }

    #[must_use]
    pub const fn counts_tokens(self) -> bool {
        matches!(self, Self::Tpd | Self::Tpm)
    }

    #[must_use]
    pub const fn is_daily(self) -> bool {
        matches!(self, Self::Tpd | Self::Rpd)
    }

    /// Is the axis named in this text, in full ("tokens per day") or as a word ("TPD")?
    pub(super) fn is_named_in(self, text: &str) -> bool {
        static NAMES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
            [
                ("tokens?", "day", "tpd"),
                ("tokens?", "min", "tpm"),
                ("requests?", "day", "rpd"),
                ("requests?", "min", "rpm"),
            ]
            .map(|(noun, period, word)| {
                pattern(&format!(
                    r"(?i-u:{noun})<s>*(?i-u:per)<s>*(?i-u:{period})|(?-u:\b)(?i-u:{word})(?-u:\b)"
                ))
            })
        });
        NAMES[self as usize].is_match(text)
    }
}

/// A limit that a text states: a whole number > 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProviderLimit {
    pub kind: LimitKind,
    pub limit: f64,
}

/// The limit that an error text states, if it states one.
#[must_use]
pub fn parse_provider_limit(message: &str, compat: Compat) -> Option<ProviderLimit> {
    match compat {
        Compat::Corrected => stated_limit::find(message),
        Compat::Recorded => recorded(message),
    }
}

/// The word "limit", then `:` or blanks, then digits and commas, wherever in the text; and an axis, wherever in the text.
fn recorded(message: &str) -> Option<ProviderLimit> {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?-u:\b)(?i-u:limit)(?::|<s>)+([0-9,]+)"));
    let digits = NUMBER.captures(message)?.get(1)?.as_str().replace(',', "");
    let limit: f64 = digits.parse().ok()?;
    if !limit.is_finite() || limit <= 0.0 {
        return None;
    }
    let kind = LimitKind::ALL
        .into_iter()
        .find(|kind| kind.is_named_in(message))?;
    Some(ProviderLimit { kind, limit })
}

/// A fixed pattern in which `<s>` stands for one blank as JavaScript's `\s` has it. Letters ignore ASCII case only, as a
/// JavaScript pattern with the flag `i` does: neither `ſ` nor the Kelvin sign is a letter of ours.
pub(super) fn pattern(source: &str) -> Regex {
    let blank = r"[\t\n\x0B\x0C\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}]";
    Regex::new(&source.replace("<s>", blank)).expect("a fixed pattern")
}

#[cfg(test)]
mod tests {
    use super::{Compat, parse_provider_limit};

    fn recorded(text: &str) -> Option<(&'static str, f64)> {
        parse_provider_limit(text, Compat::Recorded).map(|found| (found.kind.as_str(), found.limit))
    }

    #[test]
    fn recorded_texts() {
        let cases: &[(&str, Option<(&str, f64)>)] = &[
            (
                "Rate limit reached for model `x` in organization `o` on tokens per minute (TPM): Limit 30000, Used 12000",
                Some(("tpm", 30000.0)),
            ),
            (
                "Request too large on tokens per day (TPD): Limit 500,000, Requested 612,000",
                Some(("tpd", 500_000.0)),
            ),
            (
                "You hit the limit: 60 requests per minute",
                Some(("rpm", 60.0)),
            ),
            ("You exceeded the limit of 60 requests per minute", None),
            ("LIMIT 15 rpm", Some(("rpm", 15.0))),
            ("limit\n15\nRPM", Some(("rpm", 15.0))),
            ("limits 15 rpm", None),
            ("rate_limit 15 rpm", None),
            ("rate-limit 15 rpm", Some(("rpm", 15.0))),
            ("limit 0 rpm", None),
            ("limit ,,, rpm", None),
            ("limit 1,2,3 rpm", Some(("rpm", 123.0))),
            ("limit 1.5 rpm", Some(("rpm", 1.0))),
            ("limit 12k tpm", Some(("tpm", 12.0))),
            (
                "limit 10 requests per minute, 99 tokens per minute",
                Some(("tpm", 10.0)),
            ),
            ("rpm rpd limit 4", Some(("rpd", 4.0))),
            ("limit 8 tokensperday", Some(("tpd", 8.0))),
            ("limit 8 tokens/day", None),
            ("limit 8 requests per daylight", Some(("rpd", 8.0))),
            ("limit 8 rpm_x", None),
            ("limit: n/a; limit: 12 rpd", Some(("rpd", 12.0))),
            ("Limit\u{feff}30 rpm", Some(("rpm", 30.0))),
            ("Limit\u{200b}30 rpm", None),
            ("limit ３０ rpm", None),
            ("élimit 30 rpm", Some(("rpm", 30.0))),
            ("limit 30 érpm", Some(("rpm", 30.0))),
            ("limit 30 to\u{212a}ens per minute", None),
            ("limit 30 requeſt per day", None),
            (
                "limit 9007199254740993 tpd",
                Some(("tpd", 9_007_199_254_740_992.0)),
            ),
            ("limit 50 000 rpm", Some(("rpm", 50.0))),
            ("", None),
        ];
        for &(text, expected) in cases {
            assert_eq!(recorded(text), expected, "{text:?}");
        }
        assert_eq!(recorded(&format!("limit {} tpd", "9".repeat(400))), None);
    }
}
