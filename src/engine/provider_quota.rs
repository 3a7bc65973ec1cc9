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
    /// A host without these tables is told once, not at every response.
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
        self.settle(outcome)
            .map_or(Recorded::Refused, Recorded::Written)
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
            Ok(value) => {
                self.refused.set(false);
                Some(value)
            }
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
