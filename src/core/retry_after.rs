//! When a provider says that it will answer again: `Retry-After` and rate-limit reset headers. Owns the reading, not the waiting.

use super::js_number::{js_finite, js_trim};
use super::{Compat, dates};

/// A reset that JavaScript cannot turn into a date; the recorded services threw a `RangeError` there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid time value")]
pub struct InvalidTime;

/// A provider that asks for more than a day is asked again after one.
const MAX_WAIT_MS: f64 = super::time::DAY;

/// Milliseconds to wait, from 0 to a day.
///
/// Corrected: seconds >= 0, whole or decimal, or an HTTP date (or RFC 3339 instant). Recorded: whole seconds, or else
/// whatever a JavaScript engine takes for a date; `js_date` is its answer, NaN for none.
#[must_use]
pub fn retry_after_ms(text: &str, now: f64, compat: Compat, js_date: f64) -> Option<f64> {
    let text = js_trim(text);
    if text.is_empty() {
        return None;
    }
    let whole = text.bytes().all(|b| b.is_ascii_digit());
    let wait = match compat {
        _ if whole => text.parse::<f64>().ok()? * 1000.0,
        Compat::Recorded => js_date - now,
        Compat::Corrected if is_decimal(text) => text.parse::<f64>().ok()? * 1000.0,
        Compat::Corrected => {
            dates::parse_http_date(text, now).or_else(|| dates::parse_rfc3339(text))? - now
        }
    };
    // Rounded up: to come back a fraction of a millisecond early would be refused.
    (!wait.is_nan()).then(|| wait.ceil().clamp(0.0, MAX_WAIT_MS))
}

/// The epoch milliseconds of a reset header: a number above 1e12 is that, above 1e9 epoch seconds, else seconds from now.
/// Corrected: durations (`1h30m15s`) and RFC 3339 instants too, and a number that is no date is no reset.
pub fn reset_at_ms(text: &str, now: f64, compat: Compat) -> Result<Option<f64>, InvalidTime> {
    let text = js_trim(text);
    if text.is_empty() {
        return Ok(None);
    }
    let at = match js_finite(text) {
        Some(number) if number > 1e12 => Some(number),
        Some(number) if number > 1e9 => Some(number * 1000.0),
        Some(number) => Some(now + number * 1000.0),
        None if compat.is_recorded() => None,
        None => dates::parse_duration(text)
            .map(|wait| now + wait)
            .or_else(|| dates::parse_rfc3339(text)),
    };
    match at {
        Some(at) if at.abs() > dates::MAX_DATE_MS || at.is_nan() => {
            if compat.is_recorded() {
                Err(InvalidTime)
            } else {
                Ok(None)
            }
        }
        at => Ok(at),
    }
}

/// Digits, a point, digits.
fn is_decimal(text: &str) -> bool {
    text.split_once('.').is_some_and(|(whole, fraction)| {
        [whole, fraction]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::{InvalidTime, reset_at_ms, retry_after_ms};
    use crate::core::Compat::{Corrected, Recorded};

    const NOW: f64 = 3_979_080_306_789.0;

    fn corrected(text: &str) -> Option<f64> {
        retry_after_ms(text, NOW, Corrected, f64::NAN)
    }

    #[test]
    fn whole_seconds_in_both_modes() {
        for (text, ms) in [
            ("0", 0.0),
            ("1", 1000.0),
            (" 30 ", 30_000.0),
            ("00030", 30_000.0),
            ("86401", 86_400_000.0),
        ] {
            assert_eq!(corrected(text), Some(ms));
            assert_eq!(retry_after_ms(text, NOW, Recorded, f64::NAN), Some(ms));
        }
        let huge = "9".repeat(400);
        assert_eq!(corrected(&huge), Some(86_400_000.0));
    }

    #[test]
    fn corrected_takes_decimals_and_real_dates_only() {
        assert_eq!(corrected("1.5"), Some(1500.0));
        assert_eq!(corrected("0.0001"), Some(1.0));
        assert_eq!(corrected("Fri, 03 Feb 2096 04:06:06 GMT"), Some(59_211.0));
        assert_eq!(corrected("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0.0));
        assert_eq!(corrected("2096-02-03T04:05:16.789Z"), Some(10_000.0));
        for text in [
            "",
            " ",
            "-5",
            "+5",
            "in 5",
            "5 6",
            "soon",
            "1.5s",
            "1.5.2",
            ".5",
            "5.",
            "1e3",
            "12/31/2099",
            "2096-02",
            "2096-02-03",
            "3 Feb 2096",
        ] {
            assert_eq!(corrected(text), None, "{text:?}");
        }
    }

    #[test]
    fn recorded_takes_what_the_engine_takes_for_a_date() {
        assert_eq!(
            retry_after_ms("-5", NOW, Recorded, 988_675_200_000.0),
            Some(0.0)
        );
        assert_eq!(
            retry_after_ms("12/31/2099", NOW, Recorded, 4_102_358_400_000.0),
            Some(86_400_000.0)
        );
        assert_eq!(retry_after_ms("soon", NOW, Recorded, f64::NAN), None);
    }

    #[test]
    fn resets() {
        for (text, at) in [
            ("30", NOW + 30_000.0),
            ("-1", NOW - 1000.0),
            ("2.5", NOW + 2500.0),
            ("0x10", NOW + 16_000.0),
            ("1000000000", NOW + 1e12),
            ("1000000001", 1_000_000_001_000.0),
            ("1000000000000", 1e15),
            ("1000000000001", 1_000_000_000_001.0),
        ] {
            assert_eq!(reset_at_ms(text, NOW, Recorded), Ok(Some(at)), "{text}");
            assert_eq!(reset_at_ms(text, NOW, Corrected), Ok(Some(at)), "{text}");
        }
        for text in ["", "abc", "Infinity", "1,000"] {
            assert_eq!(reset_at_ms(text, NOW, Recorded), Ok(None), "{text}");
            assert_eq!(reset_at_ms(text, NOW, Corrected), Ok(None), "{text}");
        }
    }

    #[test]
    fn durations_and_huge_resets_are_corrected() {
        assert_eq!(reset_at_ms("2m59.56s", NOW, Recorded), Ok(None));
        assert_eq!(
            reset_at_ms("2m59.56s", NOW, Corrected),
            Ok(Some(NOW + 179_560.0))
        );
        assert_eq!(
            reset_at_ms("2096-02-03T04:05:16.789Z", NOW, Corrected),
            Ok(Some(NOW + 10_000.0))
        );
        assert_eq!(reset_at_ms("1e16", NOW, Recorded), Err(InvalidTime));
        assert_eq!(reset_at_ms("1e16", NOW, Corrected), Ok(None));
    }
}
