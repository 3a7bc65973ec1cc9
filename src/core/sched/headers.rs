//! What a provider's rate-limit headers say about the use of an account. Owns how they are read and for how long they
//! are believed.

use rustc_hash::FxHashMap;

use crate::core::Compat;
use crate::core::js_number::js_finite;

/// The token headers, best first: limit, remaining, reset. The first usable triple counts.
pub const TOKEN_HEADERS: [[&str; 3]; 4] = [
    [
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ],
    [
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ],
    [
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ],
    [
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ],
];

/// The request headers: limit, remaining. Each of the two is taken from the first pair that has it.
pub const REQUEST_HEADERS: [[&str; 2]; 3] = [
    [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
    ],
    [
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
    ],
    ["x-ratelimit-limit", "x-ratelimit-remaining"],
];

/// Headers are believed this long, in ms, the last included.
const TTL_MS: f64 = 300_000.0;

/// The part of a limit that is used, 0 to 1; `None` when the two numbers say nothing.
fn used_part(limit: Option<&str>, remaining: Option<&str>) -> Option<f64> {
    let present = |text: Option<&str>| text.filter(|text| !text.is_empty()).and_then(js_finite);
    let (limit, remaining) = (present(limit)?, present(remaining)?);
    (limit > 0.0).then(|| ((limit - remaining) / limit).clamp(0.0, 1.0))
}

/// `1h30m15s`, `1.5s`, `250ms` in ms: the sum of what reads as a duration, `None` when nothing does.
fn duration_ms(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digits_from = |at: usize| {
        bytes[at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let (mut at, mut sum) = (0, 0.0);
    while at < bytes.len() {
        let whole = digits_from(at);
        if whole == 0 {
            at += 1;
            continue;
        }
        let mut end = at + whole;
        if bytes.get(end) == Some(&b'.') && digits_from(end + 1) > 0 {
            end += 1 + digits_from(end + 1);
        }
        let (unit, width) = match &bytes[end..] {
            [b'm', b's', ..] => (1.0, 2),
            [b's', ..] => (1000.0, 1),
            [b'm', ..] => (60_000.0, 1),
            [b'h', ..] => (3_600_000.0, 1),
            _ => (0.0, 0),
        };
        if width > 0 {
            sum += text[at..end].parse::<f64>().unwrap_or(0.0) * unit;
        }
        at = end + width;
    }
    (sum > 0.0).then_some(sum)
}

/// One response's headers, in the order of the two tables; a header that is missing is `None`.
#[derive(Debug, Default)]
pub struct Response<'a> {
    pub tokens: [[Option<&'a str>; 3]; 4],
    /// The token resets read as instants (epoch ms); NaN for one that is no instant.
    pub token_instants: [f64; 4],
    pub requests: [[Option<&'a str>; 2]; 3],
}

/// What the token headers of a connection's last response said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenSignal {
    /// 0 to 1.
    pub saturation: f64,
    /// Epoch ms.
    pub reset_at: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Timed<T> {
    value: T,
    at: f64,
}

/// The last usable headers by connection and provider.
#[derive(Debug)]
pub struct HeaderCache {
    compat: Compat,
    tokens: FxHashMap<(Box<str>, Box<str>), Timed<TokenSignal>>,
    requests: FxHashMap<(Box<str>, Box<str>), Timed<f64>>,
    /// Entries after the last collection, for collecting again only when they doubled.
    kept: usize,
}

const MIN_KEPT: usize = 1024;

impl HeaderCache {
    #[must_use]
    pub fn new(compat: Compat) -> Self {
        Self {
            compat,
            tokens: FxHashMap::default(),
            requests: FxHashMap::default(),
            kept: MIN_KEPT,
        }
    }

    /// Keeps what the headers say. Headers that say nothing leave what an earlier response said.
    pub fn store(&mut self, conn: &str, provider: &str, response: &Response<'_>, now: f64) {
        let key = self.key(provider, conn);
        let usable = response
            .tokens
            .iter()
            .zip(response.token_instants)
            .find_map(|(&[limit, remaining, reset], instant)| {
                let saturation = used_part(limit, remaining)?;
                let reset_at = if instant.is_finite() {
                    Some(instant)
                } else {
                    reset
                        .and_then(duration_ms)
                        .map(|ms| now + ms)
                        .filter(|at| at.is_finite())
                };
                Some(TokenSignal {
                    saturation,
                    reset_at,
                })
            });
        if let Some(value) = usable {
            self.tokens.insert(key.clone(), Timed { value, at: now });
        }
        let first = |at: usize| response.requests.iter().find_map(|pair| pair[at]);
        if let Some(value) = used_part(first(0), first(1)) {
            self.requests.insert(key, Timed { value, at: now });
        }
        if self.tokens.len() + self.requests.len() > 2 * self.kept {
            self.tokens.retain(|_, entry| fresh(entry.at, now));
            self.requests.retain(|_, entry| fresh(entry.at, now));
            self.kept = (self.tokens.len() + self.requests.len()).max(MIN_KEPT);
        }
    }

    #[must_use]
    pub fn tokens(&self, provider: &str, conn: &str, now: f64) -> Option<TokenSignal> {
        let entry = self.tokens.get(&self.key(provider, conn))?;
        fresh(entry.at, now).then_some(entry.value)
    }

    /// The part of Anthropic's request limit that is used. The runs look under `anthropic` whatever the connection's
    /// provider is called.
    #[must_use]
    pub fn anthropic_requests(&self, conn: &str, now: f64) -> Option<f64> {
        let entry = self.requests.get(&self.key("anthropic", conn))?;
        fresh(entry.at, now).then_some(entry.value)
    }

    /// Corrected: `claude` and `anthropic` are two names of one provider, so headers stored under either are found
    /// under both.
    fn key(&self, provider: &str, conn: &str) -> (Box<str>, Box<str>) {
        let provider = match provider {
            "claude" if !self.compat.is_recorded() => "anthropic",
            other => other,
        };
        (provider.into(), conn.into())
    }
}

fn fresh(at: f64, now: f64) -> bool {
    now - at <= TTL_MS
}

#[cfg(test)]
mod tests {
    use super::{HeaderCache, MIN_KEPT, Response, TTL_MS, TokenSignal, duration_ms, used_part};
    use crate::core::Compat;

    #[test]
    fn durations() {
        let cases = [
            ("6m0s", Some(360_000.0)),
            ("1h30m15s", Some(5_415_000.0)),
            ("1.5s", Some(1500.0)),
            ("250ms", Some(250.0)),
            ("0.25h", Some(900_000.0)),
            ("1m500ms", Some(60_500.0)),
            ("-5s", Some(5000.0)),
            ("1s garbage 2s", Some(3000.0)),
            ("5m5m", Some(600_000.0)),
            ("12h0m0.5s", Some(43_200_500.0)),
            ("2026-12-31T99:00:00Z 5s", Some(5000.0)),
            ("10", None),
            ("garbage", None),
            ("", None),
            ("0s", None),
            ("3us", None),
            ("1\u{b5}s", None),
            ("\u{ff11}s", None),
            ("1.s", None),
        ];
        for (text, ms) in cases {
            assert_eq!(duration_ms(text), ms, "{text:?}");
        }
    }

    #[test]
    fn parts() {
        assert_eq!(used_part(Some("100"), Some("90")), Some(0.1));
        assert_eq!(used_part(Some(" 100 "), Some(" 25 ")), Some(0.75));
        assert_eq!(used_part(Some("1e3"), Some("1e2")), Some(0.9));
        assert_eq!(used_part(Some("100"), Some("-20")), Some(1.0));
        assert_eq!(used_part(Some("100"), Some("150")), Some(0.0));
        for (limit, remaining) in [
            (Some("0"), Some("0")),
            (Some("-5"), Some("1")),
            (Some("100"), Some("")),
            (Some("x"), Some("1")),
            (None, Some("1")),
        ] {
            assert_eq!(used_part(limit, remaining), None);
        }
    }

    fn response(limit: &'static str, remaining: &'static str) -> Response<'static> {
        let mut response = Response {
            token_instants: [f64::NAN; 4],
            ..Response::default()
        };
        response.tokens[1] = [Some(limit), Some(remaining), Some("6m0s")];
        response.requests[2] = [Some(limit), Some(remaining)];
        response
    }

    #[test]
    fn claude_and_anthropic_are_one_provider_once_corrected() {
        for (compat, found) in [(Compat::Corrected, true), (Compat::Recorded, false)] {
            let mut cache = HeaderCache::new(compat);
            cache.store("c", "claude", &response("50", "30"), 0.0);
            assert_eq!(cache.anthropic_requests("c", 0.0).is_some(), found);
            assert_eq!(cache.tokens("anthropic", "c", 0.0).is_some(), found);
            assert_eq!(
                cache.tokens("claude", "c", 0.0),
                Some(TokenSignal {
                    saturation: 0.4,
                    reset_at: Some(360_000.0)
                })
            );
        }
    }

    #[test]
    fn believed_for_five_minutes_and_not_replaced_by_nothing() {
        let mut cache = HeaderCache::new(Compat::Corrected);
        cache.store("c", "p", &response("100", "40"), 0.0);
        cache.store("c", "p", &response("0", "0"), 10.0);
        assert_eq!(
            cache.tokens("p", "c", TTL_MS).map(|t| t.saturation),
            Some(0.6)
        );
        assert_eq!(cache.tokens("p", "c", TTL_MS + 1.0), None);
    }

    #[test]
    fn connections_that_are_gone_do_not_pile_up() {
        let mut cache = HeaderCache::new(Compat::Corrected);
        for at in 0..20_000_u32 {
            cache.store(
                &at.to_string(),
                "p",
                &response("100", "40"),
                f64::from(at) * 1000.0,
            );
        }
        assert!(cache.tokens.len() + cache.requests.len() <= 2 * MIN_KEPT);
    }
}
