//! Texts from outside (headers, error bodies, settings, URLs, columns of the host) against the rules that read them: nothing
//! panics, nothing leaves its range, and a limit is learned only from a text that states one.
//!
//! `QUOTA_FUZZ_CASES` is the number of cases over all properties; the full run is
//! `QUOTA_FUZZ_CASES=1000000 cargo test --no-default-features --test fuzz_texts`.

use proptest::prelude::*;
use quota_core::core::Compat::{self, Corrected, Recorded};
use quota_core::core::env_caps::{account_cap, key_concurrency_limit};
use quota_core::core::js_number::{js_finite, js_number};
use quota_core::core::learning::parse_provider_limit;
use quota_core::core::model_scope::ModelScope;
use quota_core::core::quota_observation::{Response, observations_of};
use quota_core::core::retry_after::{reset_at_ms, retry_after_ms};
use quota_core::core::url_locality::is_loopback_or_private_url;
use quota_core::core::{billing, dates, error_text};
use quota_core::providers::caps::AccountCap;

/// The properties below; each gets its share of the cases.
const PROPERTIES: u32 = 14;
const DEFAULT_CASES: u32 = 140_000;
const DAY_MS: f64 = 86_400_000.0;
const MAX_DATE_MS: f64 = 8.64e15;

fn config() -> ProptestConfig {
    #[allow(clippy::disallowed_methods)] // the size of a test run, not an input of the engine
    let total = std::env::var("QUOTA_FUZZ_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_CASES);
    ProptestConfig {
        cases: (total / PROPERTIES).max(1),
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    }
}

/// Pieces that the rules look for, mixed with anything.
fn fragments(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(pieces).prop_map(str::to_owned),
        2 => "[0-9]{1,9}",
        1 => "[ ,.:;=()%_-]{1,2}",
        1 => "\\PC{0,3}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

const NUMBER_PIECES: &[&str] = &[
    "0x", "0b", "0o", "e", "E", "+", "-", ".", "Infinity", "NaN", "_", " ", "\u{a0}", "\u{feff}",
    "\u{85}", "f", "1e400", "0",
];
const LABEL_PIECES: &[&str] = &[
    "2x",
    "1.5X",
    "x",
    " ",
    "(",
    "·",
    ")",
    ".",
    "0",
    "0x",
    "150K tokens/day",
    "\u{feff}",
];
const TIME_PIECES: &[&str] = &[
    "Fri, ",
    "Friday, ",
    "03 ",
    "Feb ",
    "2096 ",
    "04:05:06 ",
    "GMT",
    "-",
    "+",
    "T",
    "Z",
    ":",
    "h",
    "m",
    "s",
    "ms",
    "d",
    "µs",
    "1e16",
    "in ",
    "1.5",
    "2096-02-03T04:05:06",
    "12/31/2099",
];
const LIMIT_PIECES: &[&str] = &[
    "limit",
    "Limit ",
    "limit: ",
    "limit=",
    " of ",
    "limits ",
    "rate_limit ",
    "tokens",
    "requests",
    " per ",
    "/",
    "day",
    "min",
    "minute",
    "hour",
    "TPD",
    "TPM",
    "RPD",
    "rpm",
    " ",
    ",",
    ".",
    "k",
    "M",
    " million",
    " neurons",
    " credits",
    "context ",
    "000",
    "\u{a0}",
    "\u{202f}",
    "\n",
    "%",
    "(",
    ")",
    "e3",
];
const URL_PIECES: &[&str] = &[
    "http",
    "https",
    "foo",
    "://",
    ":",
    "/",
    "//",
    "@",
    "localhost",
    ".localhost",
    "127.0.0.1",
    "10.",
    "192.168.",
    "0x7f",
    "[::1]",
    "[",
    "]",
    "::ffff:",
    "fd00:",
    "%6c",
    "。",
    "ｌ",
    ".",
    "?",
    "#",
    "\\",
    "\t",
    "2130706433",
];
const SCOPE_PIECES: &[&str] = &[
    "[", "]", "\"", "\"m\"", ",", "null", "{", "}", ":", "\\u00", "\\", "1", " ",
];
const ERROR_PIECES: &[&str] = &[
    "429",
    "rate limit",
    "too many requests",
    "quota",
    "exceeded",
    "daily",
    "per day",
    "per minute",
    "PerDay",
    "forbidden",
    "payment required",
    "insufficient_",
    "balance",
    ". ",
    "\n",
    "limit ",
];

fn any_mode() -> impl Strategy<Value = Compat> {
    prop::sample::select(vec![Corrected, Recorded])
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        0.0..4e12,
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-1.0),
        Just(9e15)
    ]
}

/// The digits of what stands behind each word "limit", without zeros in front.
fn digits_behind_limit(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    lower
        .match_indices("limit")
        .map(|(at, word)| {
            let digits: String = lower[at + word.len()..]
                .chars()
                .filter(char::is_ascii_digit)
                .collect();
            digits.trim_start_matches('0').to_owned()
        })
        .collect()
}

fn names_axis(text: &str, kind: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let noun = if kind.starts_with('t') {
        "token"
    } else {
        "request"
    };
    let period = if kind.ends_with('d') { "day" } else { "min" };
    text.contains(kind) || (text.contains(noun) && text.contains(period))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn numbers(text in fragments(NUMBER_PIECES)) {
        let number = js_number(&text);
        prop_assert_eq!(js_finite(&text).is_some(), number.is_finite());
        prop_assert!(number.is_nan() || !text.contains(['_', '\u{85}']), "{} from {:?}", number, text);
    }

    #[test]
    fn numbers_read_back(number in any::<f64>().prop_filter("finite", |number| number.is_finite())) {
        for text in [format!("{number}"), format!(" {number:e}\n"), format!("\u{feff}{number:E}")] {
            prop_assert_eq!(js_number(&text).to_bits(), number.to_bits(), "{}", text);
        }
    }

    #[test]
    fn caps(text in fragments(NUMBER_PIECES), row in prop::option::of(any_number())) {
        for cap in AccountCap::ALL {
            for platform in ["openrouter", "navy", "nvidia", "constructor"] {
                let from_env = account_cap(cap, platform, Some(&text), None);
                prop_assert!(from_env.is_none_or(|cap| cap.is_finite() && cap > 0.0));
                let from_row = account_cap(cap, platform, Some(&text), row);
                prop_assert!(from_row.is_none_or(|cap| cap != 0.0 && !cap.is_nan()));
            }
        }
        let limit = key_concurrency_limit(Some(&text), None);
        prop_assert!(limit.is_none_or(|limit| limit >= 1.0 && limit.fract() == 0.0));
    }

    #[test]
    fn billing_labels(label in fragments(LABEL_PIECES), tpd in prop::option::of(any_number()), raw in any_number()) {
        let multiplier = billing::token_multiplier("navy", Some(&label), tpd, 150_000.0);
        prop_assert!(multiplier > 0.0);
        let billed = billing::billed_tokens(raw, Some(150_000.0), multiplier);
        prop_assert!(billed >= 0.0, "{}", billed);
    }

    #[test]
    fn resets(text in fragments(TIME_PIECES), now in any_number()) {
        let corrected = reset_at_ms(&text, now, Corrected);
        prop_assert!(corrected.is_ok_and(|at| at.is_none_or(|at| at.abs() <= MAX_DATE_MS)), "{:?}", text);
        if let Ok(Some(at)) = reset_at_ms(&text, now, Recorded) {
            prop_assert!(at.abs() <= MAX_DATE_MS && js_finite(&text).is_some());
        }
    }

    #[test]
    fn retry_after(text in fragments(TIME_PIECES), now in any_number(), js_date in any_number(), mode in any_mode()) {
        if let Some(wait) = retry_after_ms(&text, now, mode, js_date) {
            prop_assert!((0.0..=DAY_MS).contains(&wait), "{}", wait);
            prop_assert!(mode == Recorded || text.bytes().any(|b| b.is_ascii_digit()), "{:?}", text);
        }
    }

    #[test]
    fn dates_and_durations(text in fragments(TIME_PIECES), now in any_number()) {
        for ms in [dates::parse_http_date(&text, now), dates::parse_rfc3339(&text)].into_iter().flatten() {
            prop_assert!(dates::iso_instant(ms).is_some());
        }
        prop_assert!(dates::parse_duration(&text).is_none_or(|wait| wait >= 0.0 && wait.is_finite()));
        prop_assert_eq!(dates::iso_instant(now).is_some(), now.abs() <= MAX_DATE_MS);
    }

    #[test]
    fn limits_come_only_from_texts_that_state_one(text in fragments(LIMIT_PIECES), mode in any_mode()) {
        if let Some(found) = parse_provider_limit(&text, mode) {
            prop_assert!(found.limit >= 1.0 && found.limit.fract() == 0.0 && found.limit.is_finite());
            prop_assert!(names_axis(&text, found.kind.as_str()), "no axis in {:?}", text);
            // Twelve digits: beyond them a double may round.
            let digits: String = format!("{:.0}", found.limit).chars().take(12).collect();
            let digits = digits.trim_end_matches('0');
            let stated = digits_behind_limit(&text).iter().any(|behind| behind.starts_with(digits));
            prop_assert!(stated, "{:?} from {:?}", found, text);
        }
    }

    #[test]
    fn a_limit_that_is_stated_is_learned(
        limit in 1_u32..,
        lead in prop::sample::select(vec!["limit ", "Limit: ", "LIMIT:", "rate limit:  "]),
        axis in prop::sample::select(vec![
            ("tokens per day", "tpd"), ("TPM", "tpm"), ("requests per day", "rpd"), ("request per min", "rpm"),
        ]),
        mode in any_mode(),
    ) {
        let (words, kind) = axis;
        let found = parse_provider_limit(&format!("{lead}{limit} {words}"), mode);
        prop_assert_eq!(found.map(|found| (found.kind.as_str(), found.limit)), Some((kind, f64::from(limit))));
    }

    #[test]
    fn limits_of_other_things_teach_nothing(
        number in "[1-9][0-9]{0,6}",
        thing in prop::sample::select(vec![
            " neurons", " credits", " context tokens", "kb", "x", "e3", "%", " images per day", " requests per hour",
            " tokens per second", " output tokens per minute",
        ]),
        axis in prop::sample::select(vec!["tokens per day", "TPM", "requests per day", "RPM"]),
    ) {
        let text = format!("limit: {number}{thing}. See {axis}");
        prop_assert_eq!(parse_provider_limit(&text, Corrected), None, "{}", text);
    }

    #[test]
    fn scopes(json in fragments(SCOPE_PIECES), model in "\\PC{0,6}") {
        if let ModelScope::Only(ids) = ModelScope::parse(Some(&json)) {
            prop_assert!(!ids.is_empty() && ids.iter().all(|id| !id.is_empty()));
        }
        let list = serde_json::to_string(&[&model, "other"]).expect("texts are JSON");
        prop_assert!(ModelScope::parse(Some(&list)).admits(&model) || model.is_empty());
        prop_assert!(!ModelScope::parse(Some(&list)).admits("a third model"));
    }

    #[test]
    fn urls(text in fragments(URL_PIECES), octets in any::<[u8; 4]>()) {
        let local = is_loopback_or_private_url(&text);
        prop_assert!(!local || text.contains(':'), "no scheme in {:?}", text);
        let [a, b, c, d] = octets;
        let expected = match octets {
            [100, 100, 100, 200] => false,
            [0 | 10 | 127, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => true,
            _ => false,
        };
        let word = u32::from_be_bytes(octets);
        for url in [
            format!("http://{a}.{b}.{c}.{d}:8080/v1"),
            format!("http://{word}/"),
            format!("http://0x{word:x}/"),
            format!("http://0{word:o}/"),
            format!("http://[::ffff:{a}.{b}.{c}.{d}]/"),
            format!("http://[64:ff9b::{a}.{b}.{c}.{d}]/"),
        ] {
            prop_assert_eq!(is_loopback_or_private_url(&url), expected, "{}", url);
        }
    }

    #[test]
    fn responses(
        platform in prop::sample::select(vec!["groq", "cerebras", "modelscope", "openrouter", "mistral", "custom", ""]),
        status in prop_oneof![Just(429.0), Just(402.0), Just(200.0), any_number()],
        texts in prop::collection::vec(fragments(TIME_PIECES), 4),
        now in any_number(),
        mode in any_mode(),
    ) {
        let response = Response { platform, status, retry_after_js_date: now, now };
        let header = |name: &str| Some(texts[name.len() % texts.len()].as_str());
        let found = observations_of(response, header, mode);
        prop_assert!(mode == Recorded || found.is_ok());
        for seen in found.unwrap_or_default() {
            prop_assert!((0.0..=1.0).contains(&seen.confidence));
            prop_assert!([seen.limit, seen.remaining].into_iter().flatten().all(f64::is_finite));
        }
    }

    #[test]
    fn error_texts(text in fragments(ERROR_PIECES), status in prop::option::of(any_number())) {
        let spent = error_text::says_day_is_spent(&text);
        prop_assert!(!spent || ["day", "dai", "rpd", "tpd"].iter().any(|sign| text.to_ascii_lowercase().contains(sign)));
        let refused = error_text::is_real_429(status, &text);
        prop_assert!(status.is_none() || refused == (status == Some(429.0)));
        let lower = text.to_ascii_lowercase();
        prop_assert_eq!(error_text::is_payment_error(Some(402.0), &text), true);
        prop_assert_eq!(error_text::is_model_forbidden(None, &text), lower.contains("forbidden"));
    }
}
