//! Counters of an instance, and their text in the Prometheus format.

use std::fmt::Write as _;

use crate::core::admission::Axis;
use crate::core::cooldown::Source;
use crate::store::sqlite::Cause;
use crate::store::sqlite::index::IndexStats;

/// What an instance counted since it was made.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Per axis: refused, passed.
    checks: [[u64; 2]; Axis::ALL.len()],
    cooldowns: [u64; Source::ALL.len()],
    cooldowns_other: u64,
    degraded_ms: f64,
}

/// Numbers that are kept elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauges {
    pub index: IndexStats,
    pub remembered_routes: usize,
    pub remembered_bytes: usize,
    pub leases: usize,
    pub leases_taken: u64,
    pub leases_expired: u64,
    pub pending_events: usize,
    pub degraded: bool,
    /// Of the outage that is still on.
    pub degraded_ms: f64,
}

impl Metrics {
    pub fn check(&mut self, axis: Axis, passed: bool) {
        self.checks[axis as usize][usize::from(passed)] += 1;
    }

    pub fn cooldown(&mut self, source: &str) {
        match Source::ALL
            .iter()
            .position(|known| known.as_str() == source)
        {
            Some(place) => self.cooldowns[place] += 1,
            None => self.cooldowns_other += 1,
        }
    }

    pub fn degraded_for(&mut self, milliseconds: f64) {
        self.degraded_ms += milliseconds.max(0.0);
    }

    /// The text that a scraper reads.
    #[must_use]
    pub fn text(&self, gauges: &Gauges) -> String {
        let mut text = Text(String::new());
        text.head(
            "quota_core_checks_total",
            "counter",
            "Gate decisions by axis and outcome.",
        );
        for axis in Axis::ALL {
            for (outcome, count) in ["refused", "passed"]
                .into_iter()
                .zip(self.checks[axis as usize])
            {
                text.line(
                    "quota_core_checks_total",
                    &[("axis", axis.as_str()), ("outcome", outcome)],
                    count as f64,
                );
            }
        }
        text.gauges(gauges);
        text.head(
            "quota_core_cooldowns_total",
            "counter",
            "Cooldowns set, by source.",
        );
        for (source, count) in Source::ALL.into_iter().zip(self.cooldowns) {
            text.line(
                "quota_core_cooldowns_total",
                &[("source", source.as_str())],
                count as f64,
            );
        }
        text.line(
            "quota_core_cooldowns_total",
            &[("source", "other")],
            self.cooldowns_other as f64,
        );
        text.single(
            "quota_core_degraded_seconds_total",
            "counter",
            "Time without the database.",
            (self.degraded_ms + gauges.degraded_ms) / 1000.0,
        );
        text.0
    }
}

struct Text(String);

impl Text {
    fn gauges(&mut self, gauges: &Gauges) {
        let index = &gauges.index;
        self.single(
            "quota_core_index_hits_total",
            "counter",
            "Answers from memory.",
            index.hits as f64,
        );
        self.head(
            "quota_core_sql_answers_total",
            "counter",
            "Questions that SQL had to answer, by cause.",
        );
        for (cause, count) in [
            ("transaction", index.in_transaction),
            ("changed", index.changed),
            ("not_remembered", index.not_remembered),
        ] {
            self.line(
                "quota_core_sql_answers_total",
                &[("cause", cause)],
                count as f64,
            );
        }
        self.head(
            "quota_core_index_reads_total",
            "counter",
            "Times that a route, account, cooldown or cap was read into memory, by cause.",
        );
        let again = Cause::ALL
            .into_iter()
            .map(Cause::as_str)
            .zip(index.reads_again);
        for (cause, count) in std::iter::once(("first", index.first_reads)).chain(again) {
            self.line(
                "quota_core_index_reads_total",
                &[("cause", cause)],
                count as f64,
            );
        }
        self.single(
            "quota_core_index_routes",
            "gauge",
            "Routes whose usage is in memory.",
            gauges.remembered_routes as f64,
        );
        self.single(
            "quota_core_index_bytes",
            "gauge",
            "Memory that their usage takes, about.",
            gauges.remembered_bytes as f64,
        );
        self.single(
            "quota_core_leases",
            "gauge",
            "Requests in flight.",
            gauges.leases as f64,
        );
        self.single(
            "quota_core_leases_taken_total",
            "counter",
            "Leases taken.",
            gauges.leases_taken as f64,
        );
        self.single(
            "quota_core_leases_expired_total",
            "counter",
            "Leases dropped for their age.",
            gauges.leases_expired as f64,
        );
        self.single(
            "quota_core_degraded",
            "gauge",
            "1 while the database does not answer.",
            f64::from(u8::from(gauges.degraded)),
        );
        self.single(
            "quota_core_pending_events",
            "gauge",
            "Usage events in memory and in no table.",
            gauges.pending_events as f64,
        );
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_a_head() {
        let mut metrics = Metrics::default();
        metrics.check(Axis::Rpm, false);
        metrics.cooldown("credit");
        let text = metrics.text(&Gauges::default());
        assert!(text.contains("quota_core_checks_total{axis=\"rpm\",outcome=\"refused\"} 1"));
        assert!(text.contains("quota_core_cooldowns_total{source=\"credit\"} 1"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}
