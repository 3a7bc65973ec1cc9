//! Which usage windows of an account are used up, as its provider last said. Owns when a window counts as saturated;
//! what a saturated account means for scheduling is decided elsewhere.

use rustc_hash::FxHashMap;

use super::NameId;

/// Percent of a window from which it is used up.
const SATURATED_PERCENT: f64 = 100.0;

/// The windows of the whole account, checked for every model.
pub const ACCOUNT_WINDOWS: [&str; 2] = ["5h", "7d"];

/// The window of one model: `7d:<model>`.
#[must_use]
pub fn model_window(model: &str) -> String {
    format!("7d:{model}")
}

/// The model a window is kept for, of a model string as routed (`provider/model`): what follows the first slash.
#[must_use]
pub fn model_of(model_str: &str) -> &str {
    model_str
        .split_once('/')
        .map_or(model_str, |(_, model)| model)
}

/// The window of an entry of a provider's usage answer (`session (5h)`, `weekly (7d)`, `weekly opus (7d)`).
#[must_use]
pub fn window_of_quota(name: &str) -> Option<String> {
    match name {
        "session (5h)" => Some("5h".to_owned()),
        "weekly (7d)" => Some("7d".to_owned()),
        _ => {
            let model = name.strip_prefix("weekly ")?.strip_suffix(" (7d)")?;
            (!model.is_empty()).then(|| model_window(model))
        }
    }
}

/// The saturated windows of all accounts. A window that is not used up is not kept.
#[derive(Debug, Default)]
pub struct Buckets {
    /// The instant the window starts anew (epoch ms); `None` where the provider did not say: until it says otherwise.
    by_conn: FxHashMap<NameId, FxHashMap<Box<str>, Option<f64>>>,
    len: usize,
}

impl Buckets {
    /// Notes what the provider said. `reset` is epoch ms; NaN or 0 (what providers send for "unknown") is no reset.
    pub fn record(&mut self, conn: NameId, window: &str, used_percent: f64, reset: f64, now: f64) {
        let reset = (reset.is_finite() && reset != 0.0).then_some(reset);
        let saturated = used_percent.is_finite() && used_percent >= SATURATED_PERCENT;
        if saturated && reset.is_none_or(|reset| reset > now) {
            let windows = self.by_conn.entry(conn).or_default();
            if windows.insert(window.into(), reset).is_none() {
                self.len += 1;
            }
        } else {
            self.remove(conn, window);
        }
    }

    /// Whether the window is used up at `now`. The reset is noticed here, and then the window is forgotten.
    pub fn is_saturated(&mut self, conn: NameId, window: &str, now: f64) -> bool {
        let Some(&reset) = self
            .by_conn
            .get(&conn)
            .and_then(|windows| windows.get(window))
        else {
            return false;
        };
        let over = reset.is_some_and(|reset| now >= reset);
        if over {
            self.remove(conn, window);
        }
        !over
    }

    /// Number of saturated windows, of all accounts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub fn mentions(&self, conn: NameId) -> bool {
        self.by_conn.contains_key(&conn)
    }

    fn remove(&mut self, conn: NameId, window: &str) {
        if let Some(windows) = self.by_conn.get_mut(&conn)
            && windows.remove(window).is_some()
        {
            self.len -= 1;
            if windows.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Buckets, model_of, window_of_quota};
    use crate::core::sched::NameId;

    const A: NameId = NameId(7);

    #[test]
    fn names_of_quotas() {
        let cases = [
            ("session (5h)", Some("5h")),
            ("weekly (7d)", Some("7d")),
            ("weekly opus (7d)", Some("7d:opus")),
            ("weekly (7d) (7d)", Some("7d:(7d)")),
            ("weekly a (7d)b (7d)", Some("7d:a (7d)b")),
            ("weekly  (7d)", None),
            ("weekly x (7d) ", None),
            ("Weekly opus (7d)", None),
            ("monthly", None),
            ("", None),
        ];
        for (name, window) in cases {
            assert_eq!(window_of_quota(name).as_deref(), window, "{name:?}");
        }
    }

    #[test]
    fn model_follows_the_first_slash() {
        for (text, model) in [
            ("p/m", "m"),
            ("qtSd/g/p/m", "g/p/m"),
            ("m", "m"),
            ("p/", ""),
            ("", ""),
        ] {
            assert_eq!(model_of(text), model);
        }
    }

    #[test]
    fn saturated_until_the_reset() {
        let mut buckets = Buckets::default();
        buckets.record(A, "5h", 100.0, 1000.0, 0.0);
        assert!(buckets.is_saturated(A, "5h", 999.0));
        assert!(!buckets.is_saturated(A, "5h", 1000.0));
        // Noticed once, it is over for good, even for a clock that goes back.
        assert!(!buckets.is_saturated(A, "5h", 0.0));
        assert!(buckets.is_empty() && !buckets.mentions(A));
    }

    #[test]
    fn an_unknown_reset_lasts_until_the_provider_says_otherwise() {
        for reset in [f64::NAN, f64::INFINITY, 0.0] {
            let mut buckets = Buckets::default();
            buckets.record(A, "7d", 130.0, reset, 0.0);
            assert!(buckets.is_saturated(A, "7d", 1e15));
            buckets.record(A, "7d", 99.9, reset, 0.0);
            assert!(!buckets.is_saturated(A, "7d", 0.0));
        }
    }

    #[test]
    fn what_is_no_percentage_or_already_over_clears_the_window() {
        for (used, reset) in [
            (f64::NAN, f64::NAN),
            (f64::INFINITY, 5.0),
            (-1.0, 5.0),
            (100.0, 1.0),
        ] {
            let mut buckets = Buckets::default();
            buckets.record(A, "7d", 100.0, 50.0, 0.0);
            buckets.record(A, "7d", used, reset, 1.0);
            assert_eq!(buckets.len(), 0);
        }
    }
}
