//! JavaScript's reading of a text as a number: `Number(text)`. Owns that rule alone; what a number means is decided by callers.
//!
//! Environment values, header numbers and settings were always read by JavaScript, so an operator's `1e2` or `0x10`
//! means what it meant there.

/// White space as `String.prototype.trim` and `\s` know it: U+FEFF belongs to it, U+0085 and U+200B do not.
#[must_use]
pub fn is_js_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{3000}'
                | '\u{feff}'
    )
}

/// `text.trim()`.
#[must_use]
pub fn js_trim(text: &str) -> &str {
    text.trim_matches(is_js_space)
}

/// `Number(text)`: NaN when the text is no number, 0 when it is blank.
#[must_use]
pub fn js_number(text: &str) -> f64 {
    let text = js_trim(text);
    if text.is_empty() {
        return 0.0;
    }
    let bytes = text.as_bytes();
    if bytes[0] == b'0' && bytes.len() > 1 {
        // A radix prefix takes no sign: "-0x10" is not a number.
        let bits = match bytes[1] {
            b'x' | b'X' => Some(4),
            b'o' | b'O' => Some(3),
            b'b' | b'B' => Some(1),
            _ => None,
        };
        if let Some(bits) = bits {
            return power_of_two_radix(&bytes[2..], bits);
        }
    }
    let (negative, digits) = match bytes[0] {
        b'+' => (false, &text[1..]),
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    let magnitude = if digits == "Infinity" {
        f64::INFINITY
    } else if is_decimal_literal(digits.as_bytes()) {
        digits.parse().unwrap_or(f64::NAN)
    } else {
        f64::NAN
    };
    if negative { -magnitude } else { magnitude }
}

/// `Number(text)` where that is finite.
#[must_use]
pub fn js_finite(text: &str) -> Option<f64> {
    let number = js_number(text);
    number.is_finite().then_some(number)
}

/// Digits of 1, 3 or 4 bits each, rounded once and to even, however long the text is.
fn power_of_two_radix(digits: &[u8], bits: u32) -> f64 {
    // Room for one more digit below 2^128, and far more bits than a double keeps.
    const FULL: u128 = 1 << 120;
    if digits.is_empty() {
        return f64::NAN;
    }
    let (mut mantissa, mut dropped_bits, mut dropped_any) = (0_u128, 0_u32, false);
    for &byte in digits {
        let Some(digit) = char::from(byte).to_digit(1 << bits) else {
            return f64::NAN;
        };
        if mantissa < FULL {
            mantissa = (mantissa << bits) | u128::from(digit);
        } else {
            dropped_bits = dropped_bits.saturating_add(bits);
            dropped_any |= digit != 0;
        }
    }
    #[allow(clippy::cast_precision_loss)] // the one rounding that is meant
    let head = (mantissa | u128::from(dropped_any)) as f64;
    head * 2_f64.powi(i32::try_from(dropped_bits).unwrap_or(i32::MAX))
}

/// `5`, `5.`, `.5`, `5.5`, each with an optional exponent. Stricter than Rust's own reader, which takes "inf" and "nan".
fn is_decimal_literal(bytes: &[u8]) -> bool {
    let digits_from = |at: usize| {
        bytes[at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut at = digits_from(0);
    let mut mantissa_digits = at;
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let fraction = digits_from(at);
        mantissa_digits += fraction;
        at += fraction;
    }
    if mantissa_digits == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let exponent = digits_from(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == bytes.len()
}

#[cfg(test)]
mod tests {
    use super::{js_finite, js_number, js_trim};

    #[test]
    fn reads_what_javascript_reads() {
        let cases: &[(&str, f64)] = &[
            ("", 0.0),
            (" ", 0.0),
            ("1e2", 100.0),
            ("+4", 4.0),
            ("-1", -1.0),
            ("0x10", 16.0),
            ("0X1F", 31.0),
            ("0b101", 5.0),
            ("0o17", 15.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("1e+2", 100.0),
            ("00012", 12.0),
            ("\t6\n", 6.0),
            ("\u{a0}7\u{a0}", 7.0),
            ("\u{feff}8", 8.0),
            ("\u{2028}9", 9.0),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            ("1e400", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ];
        for &(text, expected) in cases {
            assert_eq!(js_number(text).to_bits(), expected.to_bits(), "{text:?}");
        }
        assert!(js_number("-0").is_sign_negative());
    }

    #[test]
    fn refuses_what_javascript_refuses() {
        for text in [
            "abc",
            "1_000",
            "1,000",
            "0x",
            "NaN",
            "nan",
            "inf",
            "infinity",
            "-0x10",
            "--2",
            "1e",
            "3 4",
            "12abc",
            "0x1.8",
            "\u{85}6",
            "\u{200b}5",
            "１２",
            ".",
            "e5",
            "+",
            "true",
            "0b2",
            "0o8",
        ] {
            assert!(js_number(text).is_nan(), "{text:?}");
        }
        assert_eq!(js_finite("Infinity"), None);
        assert_eq!(js_finite("12"), Some(12.0));
    }

    #[test]
    fn long_radix_literals_round_once() {
        let ones = format!("0b{}", "1".repeat(200));
        assert_eq!(js_number(&ones).to_bits(), 2_f64.powi(200).to_bits());
        // Exactly half way between two doubles, with one bit set far behind: up.
        let above_half = format!("0b1{}1{}1", "0".repeat(52), "0".repeat(200));
        let expected = (2_f64.powi(52) + 1.0) * 2_f64.powi(202);
        assert_eq!(js_number(&above_half).to_bits(), expected.to_bits());
        assert_eq!(
            js_number(&format!("0x{}", "f".repeat(2000))).to_bits(),
            f64::INFINITY.to_bits()
        );
    }

    #[test]
    fn trims_as_javascript_does() {
        assert_eq!(js_trim("\u{feff}\u{3000} a b \u{2029}"), "a b");
        assert_eq!(js_trim("\u{85}a"), "\u{85}a");
    }
}
