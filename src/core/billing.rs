//! Billed tokens: what a provider counts against an account's daily token cap. Pure arithmetic over a model's row.

use regex::Regex;
use std::sync::LazyLock;

use crate::providers::caps::BILLS_BY_MULTIPLIER;

/// A multiplier such as `2x` or `1.5X`, at the start or after a blank, `(` or `·`, up to a word boundary. Digits, letters
/// and the boundary are ASCII; the blanks are JavaScript's.
static MULTIPLIER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:^|[\t\n\x0B\x0C\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}(·])([0-9]+(?:\.[0-9]+)?)[xX](?-u:\b)",
    )
    .expect("a fixed pattern")
});

/// Tokens billed per token used by a model, always > 0.
///
/// 1 except on platforms that bill by multiplier, where `label` (the row's `monthly_token_budget`) may state it; without a
/// usable label, a model whose own daily limit is below the account's cap is billed at their ratio.
#[must_use]
pub fn token_multiplier(
    platform: &str,
    label: Option<&str>,
    tpd_limit: Option<f64>,
    cap: f64,
) -> f64 {
    if !BILLS_BY_MULTIPLIER.contains(&platform) {
        return 1.0;
    }
    if let Some(stated) = label.and_then(stated_multiplier) {
        return stated;
    }
    match tpd_limit {
        Some(limit) if limit > 0.0 && limit < cap => cap / limit,
        _ => 1.0,
    }
}

/// The first multiplier in a label, if it is more than 0.
fn stated_multiplier(label: &str) -> Option<f64> {
    let number: f64 = MULTIPLIER.captures(label)?.get(1)?.as_str().parse().ok()?;
    (number > 0.0).then_some(number)
}

/// Tokens that a raw count costs: rounded up after the multiplication, so sum a model's tokens before calling this.
/// Without a cap nothing is multiplied; a raw count of 0 or less costs nothing.
#[must_use]
pub fn billed_tokens(raw: f64, cap: Option<f64>, multiplier: f64) -> f64 {
    if raw.is_nan() || raw <= 0.0 {
        return 0.0;
    }
    match cap {
        None => raw,
        Some(_) => (raw * multiplier).ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::{billed_tokens, token_multiplier};

    fn billed(label: &str, tpd_limit: Option<f64>) -> f64 {
        let multiplier = token_multiplier("navy", Some(label), tpd_limit, 150_000.0);
        billed_tokens(1001.0, Some(150_000.0), multiplier)
    }

    #[test]
    fn labels_as_recorded() {
        let cases: &[(&str, Option<f64>, f64)] = &[
            ("2x", None, 2002.0),
            ("2X", Some(50_000.0), 2002.0),
            ("· 1.5x", Some(150_000.0), 1502.0),
            ("·1.5x", Some(149_999.0), 1502.0),
            ("(3x)", Some(1.0), 3003.0),
            ("( 3x )", Some(0.0), 3003.0),
            ("x2", Some(-5.0), 1001.0),
            ("", Some(75_000.0), 2002.0),
            ("2", Some(200_000.0), 1001.0),
            ("2 x", Some(100_000.5), 1502.0),
            ("2x1", None, 1001.0),
            ("2x_", Some(50_000.0), 3003.0),
            ("2xé", Some(150_000.0), 2002.0),
            ("2x-", Some(149_999.0), 2002.0),
            ("10x faster", Some(1.0), 10_010.0),
            ("about 4x", Some(0.0), 4004.0),
            ("a4x", Some(-5.0), 1001.0),
            ("-4x", Some(75_000.0), 2002.0),
            (".5x", Some(200_000.0), 1001.0),
            ("0.5x", Some(100_000.5), 501.0),
            ("0x", None, 1001.0),
            ("0.0x", Some(50_000.0), 3003.0),
            ("0x 2x", Some(150_000.0), 1001.0),
            ("1.2.3x", Some(149_999.0), 1002.0),
            ("3.x", Some(1.0), 150_150_000.0),
            ("03x", Some(0.0), 3003.0),
            ("1e1x", Some(-5.0), 1001.0),
            ("٢x", Some(75_000.0), 2002.0),
            ("\u{a0}2x", Some(200_000.0), 2002.0),
            ("\u{feff}2x", Some(100_000.5), 2002.0),
            ("\u{85}2x", None, 1001.0),
            ("\u{2028}2x", Some(50_000.0), 2002.0),
            ("5x\n6x", Some(150_000.0), 5005.0),
            ("150K tokens/day · 2.5x", Some(149_999.0), 2503.0),
            ("(1.25x)", Some(0.0), 1252.0),
            ("[2x]", Some(-5.0), 1001.0),
            ("\"2x\"", Some(75_000.0), 2002.0),
            ("2×", Some(200_000.0), 1001.0),
            ("99999999999999999999x", Some(100_000.5), 1.001e23),
        ];
        for &(label, tpd_limit, expected) in cases {
            assert_eq!(
                billed(label, tpd_limit).to_bits(),
                expected.to_bits(),
                "{label:?} {tpd_limit:?}"
            );
        }
    }

    #[test]
    fn other_platforms_bill_one_to_one() {
        let multiplier = token_multiplier("groq", Some("5x"), Some(10.0), 5000.0);
        assert_eq!(
            billed_tokens(400.0, Some(5000.0), multiplier).to_bits(),
            400_f64.to_bits()
        );
    }

    #[test]
    fn without_a_cap_nothing_is_multiplied_or_rounded() {
        assert_eq!(billed_tokens(0.5, None, 3.0).to_bits(), 0.5_f64.to_bits());
        for raw in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(
                billed_tokens(raw, Some(1.0), 2.0).to_bits(),
                0_f64.to_bits()
            );
        }
    }
}
