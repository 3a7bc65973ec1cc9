//! The corrected reading of a limit in an error text: the number, what it counts, and per what. Owns nothing but that reading.
//!
//! The recorded rule takes the first digits behind the word "limit" and pairs them with any axis named anywhere. This one
//! reads the clause in which the number stands: an axis right behind the number binds it, a limit of some other thing or
//! period teaches nothing, and a number that is glued to letters is not a number.

use regex::Regex;
use std::sync::LazyLock;

use super::learning::{LimitKind, ProviderLimit, pattern};

/// The first place in the text that states a limit.
pub(super) fn find(message: &str) -> Option<ProviderLimit> {
    static LEAD: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?-u:\b)(?i-u:limit)(?:[:=]|<s>)+(?:(?i-u:of)<s>+)?"));
    LEAD.find_iter(message).find_map(|lead| {
        let (limit, length) = read_amount(&message[lead.end()..])?;
        let before = last_clause(&message[..lead.start()]);
        let after = first_clause(&message[lead.end() + length..]);
        let kind = axis(message, before, after)?;
        Some(ProviderLimit { kind, limit })
    })
}

/// What the number counts. `before` and `after` are the rest of its own clause.
fn axis(message: &str, before: &str, after: &str) -> Option<LimitKind> {
    static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?i-u:(tpd|tpm|rpd|rpm))(?-u:\b)"));
    static RATE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^(.*?)((?i-u:tokens?|requests?)?)<s>*((?i-u:per)|/)<s>*([A-Za-z]+)")
    });
    static NOUN: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?i-u:(tokens?|requests?))(?-u:\b)"));
    static OTHER_PERIOD: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i-u:per)(?:<s>|-)*(?i-u:hour|sec|week|month|year)|(?-u:\b)(?i-u:hourly|weekly|monthly|yearly)",
        )
    });

    if names_another_thing(before) {
        return None;
    }
    if let Some(word) = WORD.captures(after).and_then(|found| found.get(1)) {
        return LimitKind::ALL
            .into_iter()
            .find(|kind| word.as_str().eq_ignore_ascii_case(kind.as_str()));
    }
    let (mut tokens, mut daily) = (None, None);
    if let Some(rate) = RATE.captures(after) {
        let (things, noun, period) = (&rate[1], &rate[2], rate[4].to_ascii_lowercase());
        daily = Some(match period.as_str() {
            day if day.starts_with("day") => true,
            minute if minute.starts_with("min") => false,
            _ => return None,
        });
        if noun.is_empty() {
            // "60 per minute" leaves open what is counted; "8 images per day" does not.
            if !things.is_empty() {
                return None;
            }
        } else if names_another_thing(things) {
            return None;
        } else {
            tokens = Some(counts_tokens(noun));
            if &rate[3] != "/" {
                return of_kind(tokens, daily).next();
            }
        }
    } else if names_another_thing(after) {
        return None;
    } else if let Some(noun) = NOUN.captures(after) {
        tokens = Some(counts_tokens(&noun[1]));
    }
    // Nothing behind the number says it all: the axis is named somewhere else in the text.
    if OTHER_PERIOD.is_match(message) {
        return None;
    }
    of_kind(tokens, daily).find(|kind| kind.is_named_in(message))
}

fn of_kind(tokens: Option<bool>, daily: Option<bool>) -> impl Iterator<Item = LimitKind> {
    LimitKind::ALL.into_iter().filter(move |kind| {
        tokens.is_none_or(|wanted| wanted == kind.counts_tokens())
            && daily.is_none_or(|wanted| wanted == kind.is_daily())
    })
}

fn counts_tokens(noun: &str) -> bool {
    noun.as_bytes()
        .first()
        .is_some_and(|first| first.eq_ignore_ascii_case(&b't'))
}

/// A whole number > 0 at the start of the text, and its length in bytes. Thousands in groups of three behind commas or
/// blanks, decimals (rounded down), and the suffixes k, K, M, thousand, million are read.
fn read_amount(text: &str) -> Option<(f64, usize)> {
    let lead = digits(text);
    if lead == 0 {
        return None;
    }
    let mut number = text[..lead].to_owned();
    let mut at = lead;
    if lead <= 3 {
        let mut separator = None;
        while let Some(mark) = text[at..]
            .chars()
            .next()
            .filter(|&c| c == ',' || is_blank(c))
        {
            let group = &text[at + mark.len_utf8()..];
            if separator.is_some_and(|first| first != mark) || digits(group) != 3 {
                break;
            }
            separator = Some(mark);
            number.push_str(&group[..3]);
            at += mark.len_utf8() + 3;
        }
    }
    if text[at..].starts_with('.') {
        let fraction = digits(&text[at + 1..]);
        if fraction > 0 {
            number.push_str(&text[at..=at + fraction]);
            at += 1 + fraction;
        }
    }
    let (scale, length) = magnitude(&text[at..]);
    at += length;
    if !ends_number(&text[at..]) {
        return None;
    }
    let limit = (number.parse::<f64>().ok()? * scale).floor();
    (limit.is_finite() && limit > 0.0).then_some((limit, at))
}

/// A suffix that scales the number, and its length in bytes.
fn magnitude(text: &str) -> (f64, usize) {
    let blanks = text.len() - text.trim_start_matches(is_blank).len();
    let word: &str = {
        let rest = &text[blanks..];
        &rest[..rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
                .len()]
    };
    let scale = match word {
        "k" | "K" => 1e3,
        "M" => 1e6,
        _ if word.eq_ignore_ascii_case("thousand") => 1e3,
        _ if word.eq_ignore_ascii_case("million") => 1e6,
        _ if word.eq_ignore_ascii_case("billion") => 1e9,
        _ => return (1.0, 0),
    };
    (scale, blanks + word.len())
}

/// Not glued to letters or further digits ("12kb", "1e3", "1.2.3", "10-20"), and not a percentage.
fn ends_number(rest: &str) -> bool {
    let mut chars = rest.chars();
    match chars.next() {
        None => true,
        Some('%' | '_') => false,
        Some('.' | ',' | '\'' | '’' | '-' | '–') => {
            !chars.next().is_some_and(char::is_alphanumeric)
        }
        Some(next) => !next.is_alphanumeric(),
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// A blank inside a line: a number does not run on into the next one.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
        && !matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
}

const CLAUSE_ENDS: &[char] = &[
    '.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '"', '\n',
];

fn last_clause(text: &str) -> &str {
    text.rsplit(CLAUSE_ENDS).next().unwrap_or(text)
}

/// The rest of the clause behind the number. A bracket opened right there belongs to it: "limit 8 (rpm)".
fn first_clause(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    text.split(CLAUSE_ENDS).next().unwrap_or(text)
}

/// Things with limits of their own that are neither requests nor all tokens, and periods that are neither day nor minute.
const OTHER_THINGS: &[&str] = &[
    "neuron",
    "credit",
    "context",
    "image",
    "character",
    "byte",
    "file",
    "session",
    "user",
    "seat",
    "dollar",
    "usd",
    "spend",
    "budget",
    "concurren",
    "parallel",
    "connection",
    "batch",
    "message",
    "prompt",
    "input",
    "output",
    "completion",
    "cache",
    "audio",
    "video",
    "hour",
    "week",
    "month",
    "year",
];

fn names_another_thing(clause: &str) -> bool {
    clause
        .split(|c: char| !c.is_ascii_alphabetic())
        .map(str::to_ascii_lowercase)
        .any(|word| OTHER_THINGS.iter().any(|thing| word.starts_with(thing)))
}

#[cfg(test)]
mod tests {
    use super::find;

    fn read(text: &str) -> Option<(&'static str, f64)> {
        find(text).map(|found| (found.kind.as_str(), found.limit))
    }

    #[test]
    fn numbers_as_providers_write_them() {
        for (text, limit) in [
            ("limit 12k tpm", 12_000.0),
            ("limit: 12K TPM", 12_000.0),
            ("TPM limit 1.5M", 1_500_000.0),
            ("limit 1 million tokens per minute", 1_000_000.0),
            ("limit 50 000 tpm", 50_000.0),
            ("limit 50\u{a0}000 tpm", 50_000.0),
            ("limit 1\u{202f}050\u{202f}000 tpm", 1_050_000.0),
            ("limit 1,000,000 TPM", 1_000_000.0),
            ("limit 60.000000 tpm", 60.0),
            ("limit=60 tpm", 60.0),
            ("limit of 60 tokens per minute", 60.0),
            ("limit = 60 (TPM)", 60.0),
            ("limit 7, tpm", 7.0),
            ("limit 00015 tpm", 15.0),
        ] {
            assert_eq!(read(text), Some(("tpm", limit)), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_number_teaches_nothing() {
        for text in [
            "limit 12kb tpm",
            "limit 1e3 rpm",
            "limit 0x10 rpm",
            "limit 12ktokens per minute",
            "limit 3０ rpm",
            "limit 1,2,3 rpm",
            "limit 1.2.3 rpm",
            "limit ,7 rpm",
            "limit 10-20 rpm",
            "limit 80% rpm",
            "limit 0.5 rpm",
            "limit 0 rpm",
            "limit -5 rpm",
            "limit (15) rpm",
            "limit is 15 rpm",
            "limits 15 rpm",
            "rate_limit 15 rpm",
            "",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read(&format!("limit {} tpd", "9".repeat(400))), None);
    }

    #[test]
    fn limits_of_other_things_teach_nothing() {
        for text in [
            "limit of 10,000 neurons. Requests per day: see plan",
            "limit: 100 credits, RPD",
            "credit limit: 500; requests per day",
            "context limit: 8192, tokens per minute",
            "limit: 8192 context tokens, tokens per minute",
            "limit 8 images per day, rpd",
            "limit 100 requests per hour (see RPM)",
            "requests per hour: Limit 100. RPM is different",
            "hourly limit 100 rpd",
            "rate limit of 40,000 input tokens per minute",
            "limit 8 tokens/day",
            "limit 100 requests/hour rpm",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_axis_behind_the_number_binds_it() {
        for (text, expected) in [
            (
                "limit 10 requests per minute, 99 tokens per minute",
                ("rpm", 10.0),
            ),
            (
                "limit 10 requests per day; tokens per minute",
                ("rpd", 10.0),
            ),
            ("limit 3 rpm then limit 9 tpd", ("rpm", 3.0)),
            ("limit of 100 neurons. Also limit 5 rpm", ("rpm", 5.0)),
            (
                "limit 60 per minute on requests (RPM), TPD too",
                ("rpm", 60.0),
            ),
            ("limit 30 requests, TPM or RPM", ("rpm", 30.0)),
            ("limit 30 requests/min (RPM), TPM", ("rpm", 30.0)),
        ] {
            assert_eq!(read(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn texts_of_providers() {
        for (text, expected) in [
            (
                "Rate limit reached for model `x` in organization `o` on tokens per minute (TPM): Limit 30000, Used 12000, Requested 19000. Please try again in 2s.",
                ("tpm", 30_000.0),
            ),
            (
                "Rate limit reached on requests per day (RPD): Limit 1000, Used 1000, Requested 1",
                ("rpd", 1000.0),
            ),
            (
                "Quota exceeded for metric: generate_content_free_tier_requests, limit: 250, model: g-pro. Requests per day",
                ("rpd", 250.0),
            ),
            (
                "Quota exceeded: GenerateRequestsPerDayPerProjectPerModel-FreeTier, limit: 50",
                ("rpd", 50.0),
            ),
            (
                "Quota limit: 50 GenerateRequestsPerMinutePerProject",
                ("rpm", 50.0),
            ),
            (
                "Rate limit exceeded: limit_rpm/x. High demand. limit: 20 rpm",
                ("rpm", 20.0),
            ),
            (
                "Number of request tokens has exceeded your per-minute rate limit: 40,000 tokens per minute",
                ("tpm", 40_000.0),
            ),
            (
                "{\"error\":{\"message\":\"Limit 6000, Requested 9000\",\"type\":\"tokens per minute\"}}",
                ("tpm", 6000.0),
            ),
            (
                "You exceeded the limit of 60 requests per minute",
                ("rpm", 60.0),
            ),
        ] {
            assert_eq!(read(text), Some(expected), "{text:?}");
        }
    }
}
