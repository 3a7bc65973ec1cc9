//! What a response or the host says about a provider's quota, and how it joins what was known. Pure: no clock, no storage.

use super::js_number::js_finite;
use super::retry_after::{InvalidTime, reset_at_ms, retry_after_ms};
use super::{Compat, dates};
use crate::providers::pools::is_shared_pool;
use crate::providers::quota_headers::{REFUSAL_LIMIT, REFUSAL_RESET, RETRY_AFTER, specs_of};

/// Where an observation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Header,
    QuotaApi,
    ErrorBody,
    Probe,
    LocalUsage,
    Documentation,
}

impl Source {
    pub const ALL: [Self; 6] = [
        Self::Header,
        Self::QuotaApi,
        Self::ErrorBody,
        Self::Probe,
        Self::LocalUsage,
        Self::Documentation,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::QuotaApi => "quota_api",
            Self::ErrorBody => "error_body",
            Self::Probe => "probe",
            Self::LocalUsage => "local_usage",
            Self::Documentation => "documentation",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == text)
    }

    /// How much an observation is trusted when it does not say so itself, 0..1.
    #[must_use]
    pub const fn default_confidence(self) -> f64 {
        match self {
            Self::Header | Self::QuotaApi => 1.0,
            Self::ErrorBody => 0.75,
            Self::Probe => 0.6,
            Self::LocalUsage => 0.45,
            Self::Documentation => 0.35,
        }
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Header | Self::QuotaApi => 5,
            Self::ErrorBody => 4,
            Self::Probe => 3,
            Self::LocalUsage => 2,
            Self::Documentation => 1,
        }
    }
}

/// The reset strategy that says nothing.
pub const UNKNOWN_STRATEGY: &str = "unknown";
/// The metric of an observation that names none.
pub const DEFAULT_METRIC: &str = "requests";
/// Observations below this confidence do not steer a router.
pub const HEADROOM_CONFIDENCE: f64 = 0.7;

/// One thing that a response says. Numbers are `None` where it is silent.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseObservation {
    pub metric: &'static str,
    pub limit: Option<f64>,
    pub remaining: Option<f64>,
    /// An ISO instant.
    pub reset_at: Option<String>,
    /// The outer `None`: this kind of observation has no such field.
    pub retry_after_ms: Option<Option<f64>>,
    pub reset_strategy: &'static str,
    pub source: Source,
    pub confidence: f64,
    pub notes: Option<String>,
}

/// A response, reduced to what is read of it.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    pub platform: &'a str,
    /// NaN without one.
    pub status: f64,
    /// What JavaScript's `Date.parse` makes of `retry-after`; asked for in recorded mode only.
    pub retry_after_js_date: f64,
    pub now: f64,
}

/// Everything that a response says about the quota of its platform, in order of trust.
pub fn observations_of<'h>(
    response: Response<'_>,
    header: impl Fn(&str) -> Option<&'h str>,
    compat: Compat,
) -> Result<Vec<ResponseObservation>, InvalidTime> {
    let Response {
        platform,
        status,
        retry_after_js_date,
        now,
    } = response;
    let number = |name| {
        header(name)
            .filter(|text| !super::js_number::js_trim(text).is_empty())
            .and_then(js_finite)
    };
    let reset = |name| -> Result<Option<String>, InvalidTime> {
        let at = header(name).map_or(Ok(None), |text| reset_at_ms(text, now, compat))?;
        Ok(at.and_then(dates::iso_instant))
    };
    let mut found = Vec::new();

    for spec in specs_of(platform) {
        let (limit, remaining, reset_at) = (
            number(spec.limit),
            number(spec.remaining),
            reset(spec.reset)?,
        );
        if limit.is_some() || remaining.is_some() || reset_at.is_some() {
            found.push(ResponseObservation {
                metric: spec.metric,
                limit,
                remaining,
                reset_at,
                retry_after_ms: None,
                reset_strategy: spec.reset_strategy,
                source: Source::Header,
                confidence: 1.0,
                notes: None,
            });
        }
    }

    let wait =
        header(RETRY_AFTER).and_then(|text| retry_after_ms(text, now, compat, retry_after_js_date));
    if let Some(wait) = wait {
        let (source, confidence) = if status == 429.0 {
            (Source::Header, 1.0)
        } else {
            (Source::ErrorBody, 0.8)
        };
        found.push(ResponseObservation {
            metric: DEFAULT_METRIC,
            limit: number(REFUSAL_LIMIT),
            remaining: Some(0.0),
            reset_at: dates::iso_instant(now + wait),
            retry_after_ms: Some(Some(wait)),
            reset_strategy: "provider_reported",
            source,
            confidence,
            notes: Some(format!("retry-after={wait}ms")),
        });
    }

    if status == 429.0 || status == 402.0 {
        found.push(ResponseObservation {
            metric: DEFAULT_METRIC,
            limit: number(REFUSAL_LIMIT),
            remaining: Some(0.0),
            reset_at: reset(REFUSAL_RESET)?,
            retry_after_ms: Some(wait),
            reset_strategy: UNKNOWN_STRATEGY,
            source: Source::ErrorBody,
            confidence: 0.55,
            notes: Some(format!(
                "refused with status {status}: taken as an exhausted quota"
            )),
        });
    }

    if found.is_empty() && status == 200.0 && is_shared_pool(platform) {
        found.push(ResponseObservation {
            metric: DEFAULT_METRIC,
            limit: None,
            remaining: None,
            reset_at: None,
            retry_after_ms: None,
            reset_strategy: UNKNOWN_STRATEGY,
            source: Source::Probe,
            confidence: 0.1,
            notes: Some("answered without rate-limit headers".to_owned()),
        });
    }
    Ok(found)
}

/// What is known of one quota: a row of `provider_quota_state`, without its key and times.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub limit: Option<f64>,
    pub remaining: Option<f64>,
    pub reset_at: Option<String>,
    pub reset_strategy: String,
    pub source: String,
    pub confidence: f64,
    pub notes: Option<String>,
}

impl Known {
    /// What is known after `new` was seen: a silent field keeps its old value, confidence is the larger one, the source
    /// the more trusted one (of equals the new).
    #[must_use]
    pub fn joined_by(&self, new: &Self) -> Self {
        let rank = |source: &str| Source::parse(source).map_or(0, Source::rank);
        Self {
            limit: new.limit.or(self.limit),
            remaining: new.remaining.or(self.remaining),
            reset_at: new.reset_at.clone().or_else(|| self.reset_at.clone()),
            reset_strategy: if new.reset_strategy == UNKNOWN_STRATEGY {
                &self.reset_strategy
            } else {
                &new.reset_strategy
            }
            .clone(),
            source: if rank(&new.source) >= rank(&self.source) {
                &new.source
            } else {
                &self.source
            }
            .clone(),
            confidence: self.confidence.max(new.confidence),
            notes: new.notes.clone().or_else(|| self.notes.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, Response, Source, observations_of};
    use crate::core::Compat::{self, Corrected, Recorded};

    const NOW: f64 = 3_979_080_306_789.0;

    fn read(
        platform: &str,
        status: f64,
        headers: &[(&str, &'static str)],
        compat: Compat,
    ) -> Vec<String> {
        let response = Response {
            platform,
            status,
            retry_after_js_date: f64::NAN,
            now: NOW,
        };
        let header = |name: &str| {
            headers
                .iter()
                .find(|(key, _)| *key == name)
                .map(|&(_, value)| value)
        };
        observations_of(response, header, compat)
            .unwrap()
            .into_iter()
            .map(|seen| {
                format!(
                    "{} {:?} {:?} {} {} {}",
                    seen.metric,
                    seen.limit,
                    seen.remaining,
                    seen.reset_at.as_deref().unwrap_or("-"),
                    seen.source.as_str(),
                    seen.confidence
                )
            })
            .collect()
    }

    #[test]
    fn header_table() {
        let headers = [
            ("x-ratelimit-limit-requests", "10"),
            ("x-ratelimit-remaining-requests", "0x10"),
            ("x-ratelimit-reset-tokens", "60"),
        ];
        assert_eq!(
            read("groq", 200.0, &headers, Recorded),
            [
                "requests Some(10.0) Some(16.0) - header 1",
                "tokens None None 2096-02-03T04:06:06.789Z header 1",
            ]
        );
        assert_eq!(
            read("mistral", 200.0, &headers, Recorded),
            ["requests None None - probe 0.1"]
        );
        assert!(read("custom", 200.0, &headers, Recorded).is_empty());
    }

    #[test]
    fn refusals() {
        let headers = [("retry-after", "3"), ("x-ratelimit-limit-requests", "9")];
        assert_eq!(
            read("custom", 429.0, &headers, Corrected),
            [
                "requests Some(9.0) Some(0.0) 2096-02-03T04:05:09.789Z header 1",
                "requests Some(9.0) Some(0.0) - error_body 0.55",
            ]
        );
        assert_eq!(
            read("custom", 503.0, &headers, Corrected),
            ["requests Some(9.0) Some(0.0) 2096-02-03T04:05:09.789Z error_body 0.8"]
        );
        assert!(read("custom", f64::NAN, &[], Corrected).is_empty());
    }

    #[test]
    fn durations_in_resets_are_read_in_corrected_mode() {
        let headers = [("x-ratelimit-reset-requests", "7.66s")];
        assert_eq!(
            read("groq", 200.0, &headers, Recorded),
            ["requests None None - probe 0.1"]
        );
        assert_eq!(
            read("groq", 200.0, &headers, Corrected),
            ["requests None None 2096-02-03T04:05:14.449Z header 1"]
        );
    }

    #[test]
    fn joining() {
        let old = Known {
            limit: Some(10.0),
            remaining: Some(3.0),
            reset_at: Some("old".to_owned()),
            reset_strategy: "token_bucket".to_owned(),
            source: "header".to_owned(),
            confidence: 1.0,
            notes: Some("old".to_owned()),
        };
        let new = Known {
            limit: None,
            remaining: Some(0.0),
            reset_at: None,
            reset_strategy: "unknown".to_owned(),
            source: "error_body".to_owned(),
            confidence: 0.55,
            notes: Some(String::new()),
        };
        let joined = old.joined_by(&new);
        assert_eq!(
            joined,
            Known {
                remaining: Some(0.0),
                notes: Some(String::new()),
                ..old.clone()
            }
        );
        let tie = Known {
            source: "quota_api".to_owned(),
            ..new.clone()
        };
        assert_eq!(old.joined_by(&tie).source, "quota_api");
        let foreign = Known {
            source: "hearsay".to_owned(),
            ..new
        };
        assert_eq!(old.joined_by(&foreign).source, "header");
    }

    #[test]
    fn sources_read_back() {
        for source in Source::ALL {
            assert_eq!(Source::parse(source.as_str()), Some(source));
        }
        assert_eq!(Source::parse("Header"), None);
    }
}
