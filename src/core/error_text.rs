//! What kind of refusal a provider's error is, from its status and text. Classifies only; how long to wait is decided elsewhere.
//!
//! The questions overlap (`insufficient_quota` also names a quota); the order in which they are asked is the caller's.

use regex::Regex;
use std::sync::LazyLock;

/// The account is out of money: status 402, or a text that says so.
#[must_use]
pub fn is_payment_error(status: Option<f64>, message: &str) -> bool {
    const SIGNS: [&str; 4] = [
        "payment required",
        "insufficient_quota",
        "insufficient credit",
        "insufficient balance",
    ];
    status == Some(402.0) || contains_any(message, &SIGNS)
}

/// The key may not use this model: status 403, or a text that says so.
#[must_use]
pub fn is_model_forbidden(status: Option<f64>, message: &str) -> bool {
    status == Some(403.0) || contains_any(message, &["forbidden"])
}

/// A refusal for too many requests: status 429, or without any status a text that names one.
#[must_use]
pub fn is_real_429(status: Option<f64>, message: &str) -> bool {
    static SIGNS: LazyLock<Regex> = LazyLock::new(|| {
        fixed(r"(?i)\b429\b|rate[ _-]?limit|too[ _-]many[ _-]requests|quota|resource[ _]exhausted")
    });
    status.map_or_else(|| SIGNS.is_match(message), |status| status == 429.0)
}

/// The text says outright that the allowance of the day is spent. Both must stand in one sentence that names no shorter
/// period, or the text carries a quota id such as `GenerateRequestsPerDayPerProject`, which providers list once it is spent.
#[must_use]
pub fn says_day_is_spent(message: &str) -> bool {
    static DAY: LazyLock<Regex> =
        LazyLock::new(|| fixed(r"(?i)\bdaily\b|per[ _-]?day\b|/ ?day\b|\brpd\b|\btpd\b|\btoday\b"));
    static SHORTER: LazyLock<Regex> = LazyLock::new(|| {
        fixed(
            r"(?i)per[ _-]?(?:min|sec|hour)|/ ?(?:min|sec|hour|s\b|h\b)|\brpm\b|\btpm\b|\bhourly\b",
        )
    });
    static SPENT: LazyLock<Regex> = LazyLock::new(|| {
        fixed(r"(?i)exceed|exhaust|reached|used up|deplet|\bspent\b|\bran out\b|\bout of\b|\bhit\b")
    });
    static QUOTA_ID: LazyLock<Regex> = LazyLock::new(|| fixed(r"[a-z]PerDay"));
    static SENTENCE_END: LazyLock<Regex> = LazyLock::new(|| fixed(r"[.!?]\s|\n"));

    if QUOTA_ID.is_match(message) && SPENT.is_match(message) {
        return true;
    }
    SENTENCE_END.split(message).any(|sentence| {
        DAY.is_match(sentence) && SPENT.is_match(sentence) && !SHORTER.is_match(sentence)
    })
}

fn contains_any(message: &str, signs: &[&str]) -> bool {
    let message = message.to_ascii_lowercase();
    signs.iter().any(|sign| message.contains(sign))
}

fn fixed(source: &str) -> Regex {
    Regex::new(source).expect("a fixed pattern")
}

#[cfg(test)]
mod tests {
    use super::{is_model_forbidden, is_payment_error, is_real_429, says_day_is_spent};

    #[test]
    fn payment() {
        assert!(is_payment_error(Some(402.0), ""));
        for text in [
            "402 Payment Required",
            "code: insufficient_quota",
            "Insufficient credits",
            "INSUFFICIENT BALANCE",
        ] {
            assert!(
                is_payment_error(None, text) && is_payment_error(Some(429.0), text),
                "{text}"
            );
        }
        assert!(!is_payment_error(Some(429.0), "quota exceeded"));
    }

    #[test]
    fn forbidden() {
        assert!(is_model_forbidden(Some(403.0), ""));
        assert!(is_model_forbidden(None, "Forbidden: tier"));
        assert!(!is_model_forbidden(Some(401.0), "unauthorized"));
    }

    #[test]
    fn too_many_requests() {
        assert!(is_real_429(Some(429.0), ""));
        assert!(!is_real_429(Some(500.0), "rate limit"));
        for text in [
            "HTTP 429",
            "Rate-limit",
            "rate_limit_exceeded",
            "Too Many Requests",
            "quota",
            "RESOURCE_EXHAUSTED",
        ] {
            assert!(is_real_429(None, text), "{text}");
        }
        for text in ["", "took 14290 ms", "connection reset"] {
            assert!(!is_real_429(None, text), "{text}");
        }
    }

    #[test]
    fn the_day_is_spent() {
        for text in [
            "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
            "Rate limit reached for model `x` on tokens per day (TPD): Limit 100000, Used 99999",
            "You have used up your daily free allocation of 10,000 neurons",
            "Daily quota exceeded",
            "You exceeded your current quota.\nquotaId: GenerateRequestsPerDayPerProjectPerModel-FreeTier",
            "rpd exhausted",
        ] {
            assert!(says_day_is_spent(text), "{text}");
        }
        for text in [
            "",
            "Rate limit reached on tokens per minute (TPM): Limit 6000",
            "You reached 30 requests per minute (1000 per day)",
            "Limit exceeded. See your daily plan",
            "Request too large on tokens per day (TPD): Limit 500,000, Requested 612,000",
            "GenerateRequestsPerMinutePerProject exceeded",
        ] {
            assert!(!says_day_is_spent(text), "{text}");
        }
    }
}
