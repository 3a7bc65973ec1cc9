//! Instants and durations as texts: what `Date.prototype.toISOString` writes, and what providers send. Every reader answers
//! `None` for a text that is not exactly one of its forms; none of them guesses, as JavaScript's `Date.parse` does.

/// Milliseconds that a JavaScript `Date` can be away from 1970.
pub const MAX_DATE_MS: f64 = 8.64e15;
const DAY_MS: i64 = 86_400_000;
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// `new Date(ms).toISOString()`: fractions are cut off; `None` where JavaScript throws its `RangeError`.
#[must_use]
pub fn iso_instant(ms: f64) -> Option<String> {
    if ms.is_nan() || ms.abs() > MAX_DATE_MS {
        return None;
    }
    let ms = ms.trunc() as i64;
    let (days, in_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second, milli) = (
        in_day / 3_600_000,
        in_day / 60_000 % 60,
        in_day / 1000 % 60,
        in_day % 1000,
    );
    let year = if (0..=9999).contains(&year) {
        format!("{year:04}")
    } else {
        format!("{}{:06}", if year < 0 { '-' } else { '+' }, year.abs())
    };
    Some(format!(
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
    ))
}

/// The same instant as SQLite writes one, with milliseconds: `2096-02-03 04:05:06.789`.
#[must_use]
pub fn sql_instant(ms: f64) -> Option<String> {
    let mut text = iso_instant(ms)?.replace('T', " ");
    text.pop();
    Some(text)
}

/// An RFC 3339 instant, with its zone: `2096-02-03T04:05:06.789Z`, `…+05:30`. Epoch milliseconds.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    if !text.is_ascii()
        || bytes.len() < 20
        || bytes[4] != b'-'
        || bytes[7] != b'-'
        || !matches!(bytes[10], b'T' | b't' | b' ')
    {
        return None;
    }
    let days = date(
        number(&text[..4])?,
        number(&text[5..7])?,
        number(&text[8..10])?,
    )?;
    let seconds = clock(&text[11..19])?;
    let mut rest = &text[19..];
    let mut milli = 0.0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        milli = (format!("0.{}", &fraction[..length]).parse::<f64>().ok()? * 1000.0).trunc();
        rest = &fraction[length..];
    }
    let offset_minutes = match rest.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), .., _] if rest.len() == 6 && rest.as_bytes()[3] == b':' => {
            let (hours, minutes) = (number(&rest[1..3])?, number(&rest[4..6])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    Some(((days * 86_400 + seconds - offset_minutes * 60) * 1000) as f64 + milli)
}

/// An HTTP date in any of its three forms (RFC 9110, 5.6.7). Epoch milliseconds.
///
/// `now` settles the century of a two-digit year: one that seems more than 50 years ahead is past.
#[must_use]
pub fn parse_http_date(text: &str, now: f64) -> Option<f64> {
    let parts: Vec<&str> = text
        .split([' ', ',', '-'])
        .filter(|part| !part.is_empty())
        .collect();
    let (day, month, year, time) = match parts.as_slice() {
        [weekday, day, month, year, time, zone]
            if is_weekday(weekday) && zone.eq_ignore_ascii_case("GMT") =>
        {
            (day, month, year, time)
        }
        // The form of C's asctime.
        [weekday, month, day, time, year] if is_weekday(weekday) => (day, month, year, time),
        _ => return None,
    };
    let (month, _) = (1..)
        .zip(MONTHS)
        .find(|(_, name)| name.eq_ignore_ascii_case(month))?;
    let (day, seconds) = (number(day)?, clock(time)?);
    let instant = |year: i64| Some(((date(year, month, day)? * 86_400 + seconds) * 1000) as f64);
    match year.len() {
        4 => instant(number(year)?),
        2 => {
            const FIFTY_YEARS_MS: f64 = 50.0 * 365.25 * DAY_MS as f64;
            let (this_year, _, _) =
                civil_from_days((now.clamp(-MAX_DATE_MS, MAX_DATE_MS) as i64).div_euclid(DAY_MS));
            let year = this_year - this_year.rem_euclid(100) + number(year)?;
            instant(if instant(year)? - now > FIFTY_YEARS_MS {
                year - 100
            } else {
                year
            })
        }
        _ => None,
    }
}

/// A duration as providers send it: numbers with units, largest first: `1h30m15s`, `6m0s`, `7.66s`, `250ms`. Milliseconds.
#[must_use]
pub fn parse_duration(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("d", 86_400_000.0),
        ("h", 3_600_000.0),
        ("m", 60_000.0),
        ("s", 1000.0),
        ("ms", 1.0),
        ("us", 1e-3),
        ("µs", 1e-3),
        ("ns", 1e-6),
    ];
    let (mut rest, mut total, mut last_unit) = (text, 0.0, f64::INFINITY);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .bytes()
            .take_while(|b| b.is_ascii_digit() || *b == b'.')
            .count();
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (_, unit) = UNITS
            .into_iter()
            .find(|(name, _)| *name == &rest[..letters])?;
        if unit >= last_unit {
            return None;
        }
        total += amount * unit;
        last_unit = unit;
        rest = &rest[letters..];
    }
    total.is_finite().then_some(total)
}

fn is_weekday(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    WEEKDAYS
        .iter()
        .any(|name| *name == text || name[..3] == text)
}

/// `hh:mm:ss` as seconds of the day; a leap second counts as the next one.
fn clock(text: &str) -> Option<i64> {
    let parts: Vec<&str> = text.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else {
        return None;
    };
    if [hour, minute, second].iter().any(|part| part.len() != 2) {
        return None;
    }
    let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Up to four digits, nothing else.
fn number(text: &str) -> Option<i64> {
    let good = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten()
}

/// Days since 1970 of a date that exists.
fn date(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// The Gregorian calendar, counted in eras of 400 years that begin on 1 March, so that a leap day ends its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{iso_instant, parse_duration, parse_http_date, parse_rfc3339, sql_instant};
    use proptest::prelude::*;

    /// 2096-02-03T04:05:06.789Z.
    const NOW: f64 = 3_979_080_306_789.0;

    #[test]
    fn writes_what_javascript_writes() {
        for (ms, expected) in [
            (NOW, "2096-02-03T04:05:06.789Z"),
            (NOW + 1.5, "2096-02-03T04:05:06.790Z"),
            (0.0, "1970-01-01T00:00:00.000Z"),
            (-1.0, "1969-12-31T23:59:59.999Z"),
            (-0.5, "1970-01-01T00:00:00.000Z"),
            (1e15, "+033658-09-27T01:46:40.000Z"),
            (8.64e15, "+275760-09-13T00:00:00.000Z"),
            (-8.64e15, "-271821-04-20T00:00:00.000Z"),
            (-62_198_755_200_000.0, "-000001-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso_instant(ms).as_deref(), Some(expected));
        }
        for ms in [
            8.64e15 + 2.0,
            1e16,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert_eq!(iso_instant(ms), None);
        }
        assert_eq!(sql_instant(NOW).as_deref(), Some("2096-02-03 04:05:06.789"));
    }

    #[test]
    fn http_dates() {
        let expected = Some(3_979_080_366_000.0);
        for text in [
            "Fri, 03 Feb 2096 04:06:06 GMT",
            "Friday, 03-Feb-96 04:06:06 GMT",
            "Fri Feb  3 04:06:06 2096",
        ] {
            assert_eq!(parse_http_date(text, NOW), expected, "{text}");
        }
        assert_eq!(
            parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
            Some(784_111_777_000.0)
        );
        assert_eq!(
            parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", 1.7e12),
            Some(784_111_777_000.0)
        );
        for text in [
            "",
            "in 5",
            "-5",
            "12/31/2099",
            "3 Feb 2096",
            "Feb 3 2096 04:06:06 GMT",
            "Fri, 31 Feb 2096 04:06:06 GMT",
            "Fri, 03 Feb 2096 24:06:06 GMT",
            "Fri, 03 Feb 2096 04:06:06",
            "Fri, 03 Feb 2096 04:06:06 PST",
            "Foo, 03 Feb 2096 04:06:06 GMT",
            "Fri, 03 Feb 20966 04:06:06 GMT",
        ] {
            assert_eq!(parse_http_date(text, NOW), None, "{text}");
        }
    }

    #[test]
    fn rfc3339_instants() {
        for (text, ms) in [
            ("2096-02-03T04:05:06.789Z", NOW),
            ("2096-02-03T04:05:06.7899Z", NOW),
            ("2096-02-03T06:05:06.789+02:00", NOW),
            ("2096-02-02T22:35:06.789-05:30", NOW),
        ] {
            assert_eq!(parse_rfc3339(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "2096-02-03",
            "2096-02-03T04:05:06",
            "2096-02-30T04:05:06Z",
            "2096-13-03T04:05:06Z",
            "2096-02-03T04:05:06.Z",
            "2096-02-03T04:05:06+0200",
            "2096-02-03T04:05:06+24:00",
            "２096-02-03T04:05:06Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in [
            ("1h30m15s", 5_415_000.0),
            ("6m0s", 360_000.0),
            ("250ms", 250.0),
            ("7.66s", 7660.0),
            ("2m59.56s", 179_560.0),
            ("1d", 86_400_000.0),
            ("0s", 0.0),
            ("1s500ms", 1500.0),
        ] {
            assert_eq!(parse_duration(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "1h30",
            "15s1h",
            "1s1s",
            "-5s",
            "1.2.3s",
            "1 h",
            "1x",
            ".s",
            "1h\u{0660}m",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(ms in 0_i64..253_402_300_799_999) {
            let text = iso_instant(ms as f64).unwrap();
            prop_assert_eq!(parse_rfc3339(&text), Some(ms as f64));
        }
    }
}
