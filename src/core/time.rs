//! Spans of time and the UTC day. Instants are epoch milliseconds as JavaScript counts them: doubles.

pub const SECOND: f64 = 1000.0;
pub const MINUTE: f64 = 60.0 * SECOND;
pub const HOUR: f64 = 60.0 * MINUTE;
pub const DAY: f64 = 24.0 * HOUR;

/// The midnight UTC at or before an instant, also before 1970.
#[must_use]
pub fn utc_midnight(now: f64) -> f64 {
    (now / DAY).floor() * DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_is_at_or_before() {
        assert_eq!(utc_midnight(0.0), 0.0);
        assert_eq!(utc_midnight(DAY - 1.0), 0.0);
        assert_eq!(utc_midnight(DAY), DAY);
        assert_eq!(utc_midnight(-1.0), -DAY);
    }
}
