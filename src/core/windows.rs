//! Which events count in a window, as the instant after which they do.

use super::Compat;
use super::time::{DAY, MINUTE, utc_midnight};

/// What "a day" is on the rpd and tpd axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayWindow {
    /// Since midnight UTC, as providers reset.
    UtcDay,
    /// The last 24 hours.
    Sliding24h,
}

impl DayWindow {
    /// The day window of an instance that states none.
    #[must_use]
    pub fn default_for(compat: Compat) -> Self {
        match compat {
            Compat::Corrected => Self::UtcDay,
            Compat::Recorded => Self::Sliding24h,
        }
    }
}

/// The length of a window: minute axes (rpm, tpm) or day axes (rpd, tpd).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Minute,
    Day,
}

/// The windows of an instance. An event counts when its instant is greater than the bound given here.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    compat: Compat,
    day: DayWindow,
}

impl Windows {
    #[must_use]
    pub fn new(compat: Compat, day: DayWindow) -> Self {
        Self { compat, day }
    }

    #[must_use]
    pub fn day_window(self) -> DayWindow {
        self.day
    }

    /// The axis of this length.
    #[must_use]
    pub fn after(self, span: Span, now: f64) -> f64 {
        match span {
            Span::Minute => self.minute(now),
            Span::Day => self.day(now),
        }
    }

    /// rpm and tpm.
    #[must_use]
    pub fn minute(self, now: f64) -> f64 {
        now - MINUTE
    }

    /// rpd and tpd.
    #[must_use]
    pub fn day(self, now: f64) -> f64 {
        match self.day {
            DayWindow::UtcDay => self.utc_day(now),
            DayWindow::Sliding24h => now - DAY,
        }
    }

    /// The UTC day of the account-wide caps. A request at the very midnight belongs to the new day, which the original
    /// left out of both days.
    #[must_use]
    pub fn utc_day(self, now: f64) -> f64 {
        let midnight = utc_midnight(now);
        match self.compat {
            Compat::Corrected => midnight.next_down(),
            Compat::Recorded => midnight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_counts_in_the_new_day_unless_recorded() {
        let now = 20_000.0 * DAY;
        let corrected = Windows::new(Compat::Corrected, DayWindow::UtcDay);
        let recorded = Windows::new(Compat::Recorded, DayWindow::UtcDay);
        assert!(now > corrected.day(now));
        assert!(now - 1.0 <= corrected.day(now));
        assert!(now <= recorded.day(now));
    }

    #[test]
    fn sliding_day_forgets_exactly_after_24_hours() {
        let windows = Windows::new(Compat::Corrected, DayWindow::Sliding24h);
        let now = 20_000.5 * DAY;
        assert!(now - DAY <= windows.day(now));
        assert!(now - DAY + 1.0 > windows.day(now));
    }
}
