//! What is known about providers' own quotas: records what responses say, answers what a key has left. Owns the short-lived
//! memory of headroom; the rules are `core::quota_observation`, the rows the store's.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::Link;
use crate::core::quota_observation::{HEADROOM_CONFIDENCE, Known};
use crate::core::{Compat, dates, headroom};
use crate::providers::pools::is_account_pool;
use crate::store::sqlite::quota_queries::{self as queries, ObservationRow, StateKey, StateRow};
use crate::store::sqlite::{Conn, SqlError};

/// How long an answer about headroom is kept, in milliseconds.
const HEADROOM_TTL_MS: f64 = 5000.0;
/// Platforms whose headroom is kept at once; names come from the host.
const MAX_PLATFORMS: usize = 1000;
const TAG: &str = "quota:provider";

/// An observation to record.
#[derive(Clone, Copy, Debug)]
pub struct NewObservation<'a> {
    pub key: StateKey<'a>,
    pub seen: &'a Known,
    pub row: ObservationRow<'a>,
}

/// What became of an observation.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// Written; this is known now.
    Written(Known),
    /// There is no open connection.
    NoDatabase,
    /// SQLite refused, and the host was warned.
    Refused,
}

/// Key id and the share that it has left, in order of the ids.
type Headroom = Vec<(f64, f64)>;

struct Kept {
    at: f64,
    conn: Conn,
    headroom: Headroom,
}

/// The provider-quota part of an instance.
pub struct ProviderQuota {
    link: Link,
    compat: Compat,
    kept: RefCell<FxHashMap<Box<str>, Kept>>,
    /// A host that cannot take observations is told once, not at every response.
    refused: Cell<bool>,
}

impl ProviderQuota {
    #[must_use]
    pub fn new(link: Link, compat: Compat) -> Self {
        Self {
            link,
            compat,
            kept: RefCell::default(),
            refused: Cell::new(false),
        }
    }

    #[must_use]
    pub fn compat(&self) -> Compat {
        self.compat
    }

    /// Joins an observation into what is known and appends it, as one unit.
    pub fn record(&self, new: NewObservation<'_>) -> Recorded {
        let Some(conn) = self.link.conn() else {
            return Recorded::NoDatabase;
        };
        let outcome = conn.transaction(|conn| {
            let known = match queries::state(conn, new.key)? {
                Some(old) => old.joined_by(new.seen),
                None => new.seen.clone(),
            };
            queries::put_state(conn, new.key, &known, new.row.observed_at)?;
            queries::append_observation(conn, new.key, new.seen, new.row)?;
            Ok::<_, SqlError>(known)
        });
        self.kept.borrow_mut().remove(new.key.platform);
        match self.settle(outcome) {
            Some(known) => {
                self.refused.set(false);
                Recorded::Written(known)
            }
            None => Recorded::Refused,
        }
    }

    /// Everything that is known, after quotas whose reset has passed were set back to full. `None` without a connection.
    pub fn states(&self, now: f64) -> Option<Vec<StateRow>> {
        let conn = self.link.conn()?;
        let outcome = self
            .sql_now(now)
            .map_or(Ok(0), |now| queries::renew_expired(&conn, &now))
            .and_then(|_| queries::states(&conn));
        Some(self.settle(outcome).unwrap_or_default())
    }

    /// What each key of a platform has left, 0..1: its scarcest quota. Keys without a trusted observation are absent.
    /// `None` without a connection.
    pub fn headroom(&self, platform: &str, now: f64) -> Option<Headroom> {
        let conn = self.link.conn();
        if let Some(kept) = self.kept.borrow().get(platform)
            && self.is_fresh(kept, conn.as_ref(), now)
        {
            return Some(kept.headroom.clone());
        }
        let conn = conn?;
        let clock = self.sql_now(now).unwrap_or_default();
        let outcome = queries::headroom_rows(&conn, platform, HEADROOM_CONFIDENCE, &clock);
        let mut headroom: Headroom = Vec::new();
        for row in self.settle(outcome)? {
            let share = if row.renewed {
                1.0
            } else {
                headroom::remaining_share(row.limit, row.remaining)
            };
            match headroom.last_mut() {
                Some((key_id, least)) if *key_id == row.key_id => *least = least.min(share),
                _ => headroom.push((row.key_id, share)),
            }
        }
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MAX_PLATFORMS {
            kept.clear();
        }
        kept.insert(
            platform.into(),
            Kept {
                at: now,
                conn,
                headroom: headroom.clone(),
            },
        );
        Some(headroom)
    }

    /// Forgets the headroom of one platform, or of all.
    pub fn invalidate(&self, platform: Option<&str>) {
        let mut kept = self.kept.borrow_mut();
        match platform {
            Some(platform) => {
                kept.remove(platform);
            }
            None => kept.clear(),
        }
    }

    /// Sorts keys so that the roomiest comes first. Keys of one account report the same numbers: their order stays.
    pub fn order_keys(&self, platform: &str, model_id: Option<&str>, keys: &mut [f64], now: f64) {
        if is_account_pool(platform, model_id) {
            return;
        }
        let known = self.headroom(platform, now).unwrap_or_default();
        headroom::sort_by_headroom(keys, |key| {
            known
                .binary_search_by(|(id, _)| id.total_cmp(&key))
                .ok()
                .map(|at| known[at].1)
        });
    }

    /// As after a restart.
    pub fn reset(&self) {
        self.invalidate(None);
        self.refused.set(false);
    }

    fn is_fresh(&self, kept: &Kept, conn: Option<&Conn>, now: f64) -> bool {
        let age = now - kept.at;
        match self.compat {
            Compat::Corrected => {
                (0.0..HEADROOM_TTL_MS).contains(&age)
                    && conn.is_some_and(|conn| conn.same_as(&kept.conn))
            }
            // The original compared handles, so that a closed one still served, and never looked for a clock gone back.
            Compat::Recorded => {
                age < HEADROOM_TTL_MS && conn.is_none_or(|conn| conn.same_as(&kept.conn))
            }
        }
    }

    /// The instant that resets are compared with, as a time text of SQLite: the instance's clock, or as recorded SQLite's
    /// own. `None` where SQLite has no text for it (a clock outside the years 0 to 9999).
    fn sql_now(&self, now: f64) -> Option<String> {
        match self.compat {
            Compat::Corrected => dates::sql_instant(now),
            Compat::Recorded => Some("now".to_owned()),
        }
    }

    fn settle<T>(&self, outcome: Result<T, SqlError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                if !self.refused.replace(true) {
                    self.link
                        .warn(TAG, format!("provider quota is not kept: {error}"));
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NewObservation, ProviderQuota, Recorded};
    use crate::core::Compat::{self, Corrected, Recorded as RecordedMode};
    use crate::core::quota_observation::Known;
    use crate::engine::Link;
    use crate::store::sqlite::quota_queries::{ObservationRow, StateKey};
    use crate::store::sqlite::{Conn, Param, schema};

    const OBSERVED: &str = "2026-08-01 00:00:00.000";
    /// 2026-08-01T00:00:00Z.
    const T0: f64 = 1_785_542_400_000.0;

    fn instance(compat: Compat) -> (Link, Conn, ProviderQuota) {
        let conn = Conn::open_memory().unwrap();
        schema::ensure(&conn).unwrap();
        let link = Link::default();
        link.set_conn(Some(conn.clone()));
        (link.clone(), conn, ProviderQuota::new(link, compat))
    }

    fn seen(limit: f64, remaining: f64, reset_at: Option<&str>) -> Known {
        Known {
            limit: Some(limit),
            remaining: Some(remaining),
            reset_at: reset_at.map(str::to_owned),
            reset_strategy: "unknown".to_owned(),
            source: "header".to_owned(),
            confidence: 1.0,
            notes: None,
        }
    }

    fn record(quota: &ProviderQuota, id: &str, key_id: f64, seen: &Known) -> Recorded {
        quota.record(NewObservation {
            key: StateKey {
                platform: "cerebras",
                key_id,
                pool: "cerebras::shared",
                metric: "requests",
            },
            seen,
            row: ObservationRow {
                id,
                provider_account_id: None,
                model_id: None,
                status_code: None,
                retry_after_ms: None,
                raw_json: None,
                endpoint: None,
                observed_at: OBSERVED,
            },
        })
    }

    fn rows(conn: &Conn, table: &str) -> f64 {
        let sql: &'static str = match table {
            "state" => "SELECT count(*) FROM provider_quota_state",
            _ => "SELECT count(*) FROM provider_quota_observations",
        };
        conn.query_row(sql, &[], |row| row.num(0))
            .unwrap()
            .flatten()
            .unwrap()
    }

    #[test]
    fn an_observation_is_all_there_or_not_at_all() {
        let (link, conn, quota) = instance(Corrected);
        assert!(matches!(
            record(&quota, "a", 1.0, &seen(10.0, 5.0, None)),
            Recorded::Written(_)
        ));
        // The same id again: the append fails, and the state it would have changed stays.
        assert_eq!(
            record(&quota, "a", 1.0, &seen(10.0, 0.0, None)),
            Recorded::Refused
        );
        assert_eq!(
            (rows(&conn, "state"), rows(&conn, "observations")),
            (1.0, 1.0)
        );
        assert_eq!(quota.headroom("cerebras", T0), Some(vec![(1.0, 0.5)]));
        assert_eq!(link.take_notices().len(), 1);
        assert_eq!(
            record(&quota, "a", 1.0, &seen(10.0, 0.0, None)),
            Recorded::Refused
        );
        assert!(link.take_notices().is_empty(), "told once");
    }

    #[test]
    fn the_scarcest_quota_of_a_key_counts_and_a_passed_reset_is_full() {
        let (_, conn, quota) = instance(Corrected);
        record(
            &quota,
            "a",
            1.0,
            &seen(10.0, 1.0, Some("2026-08-01T00:00:10.000Z")),
        );
        record(&quota, "b", 2.0, &seen(10.0, 4.0, None));
        conn.execute(
            "INSERT INTO provider_quota_state SELECT platform, key_id, quota_pool_key, 'tokens', 100, 30, NULL, reset_strategy,
                source, confidence, notes, observed_at, updated_at FROM provider_quota_state WHERE key_id = ?1",
            &[Param::Num(2.0)],
        )
        .unwrap();
        quota.invalidate(None);
        assert_eq!(
            quota.headroom("cerebras", T0 + 10_000.0),
            Some(vec![(1.0, 0.1), (2.0, 0.3)])
        );
        quota.invalidate(Some("cerebras"));
        assert_eq!(
            quota.headroom("cerebras", T0 + 10_001.0),
            Some(vec![(1.0, 1.0), (2.0, 0.3)])
        );
        let mut keys = [3.0, 2.0, 1.0];
        quota.order_keys("cerebras", None, &mut keys, T0 + 10_001.0);
        assert_eq!(keys, [1.0, 3.0, 2.0]);
    }

    #[test]
    fn a_clock_that_steps_back_is_noticed() {
        for (compat, expected) in [(Corrected, 0.0), (RecordedMode, 0.5)] {
            let (_, conn, quota) = instance(compat);
            record(&quota, "a", 1.0, &seen(10.0, 5.0, None));
            assert_eq!(quota.headroom("cerebras", T0), Some(vec![(1.0, 0.5)]));
            conn.execute("UPDATE provider_quota_state SET remaining_value = 0", &[])
                .unwrap();
            assert_eq!(
                quota.headroom("cerebras", T0 + 4999.0),
                Some(vec![(1.0, 0.5)])
            );
            assert_eq!(
                quota.headroom("cerebras", T0 - 1.0),
                Some(vec![(1.0, expected)])
            );
        }
    }

    #[test]
    fn a_closed_connection_answers_nothing_but_what_was_kept_as_recorded() {
        for (compat, kept) in [(Corrected, None), (RecordedMode, Some(vec![(1.0, 0.5)]))] {
            let (link, conn, quota) = instance(compat);
            record(&quota, "a", 1.0, &seen(10.0, 5.0, None));
            quota.headroom("cerebras", T0);
            conn.close_own();
            assert!(link.is_closed());
            assert_eq!(quota.headroom("cerebras", T0 + 1.0), kept);
            assert_eq!(quota.headroom("cerebras", T0 + 5000.0), None);
            assert!(quota.states(T0).is_none());
            assert_eq!(
                record(&quota, "b", 1.0, &seen(1.0, 1.0, None)),
                Recorded::NoDatabase
            );
        }
    }

    #[test]
    fn the_panel_renews_what_has_passed_and_joins_the_newest_observation() {
        let (_, conn, quota) = instance(Corrected);
        conn.execute(
            "INSERT INTO api_keys (id, platform, label) VALUES (1, 'cerebras', 'main')",
            &[],
        )
        .unwrap();
        record(
            &quota,
            "a",
            1.0,
            &seen(10.0, 1.0, Some("2026-08-01T00:00:10.000Z")),
        );
        let before = quota.states(T0 + 10_000.0).unwrap();
        assert_eq!(before[0].known.remaining, Some(1.0));
        assert_eq!(before[0].key_label.as_deref(), Some("main"));
        assert_eq!(before[0].created_at.as_deref(), Some(OBSERVED));
        let after = quota.states(T0 + 10_001.0).unwrap();
        assert_eq!(
            (after[0].known.remaining, after[0].known.reset_at.as_deref()),
            (Some(10.0), None)
        );
    }

    #[test]
    fn missing_tables_are_told_and_answered_empty() {
        let (link, conn, quota) = instance(Corrected);
        conn.execute_dynamic("DROP TABLE provider_quota_state", &[])
            .unwrap();
        assert_eq!(
            record(&quota, "a", 1.0, &seen(1.0, 1.0, None)),
            Recorded::Refused
        );
        assert_eq!(quota.states(T0).map(|rows| rows.len()), Some(0));
        assert_eq!(quota.headroom("cerebras", T0), None);
        assert_eq!(link.take_notices().len(), 1);
        assert!(conn.autocommit(), "no transaction is left open");
    }
}
