//! Rate limits, leases, cooldowns, learned limits: the state of one instance of the single-router side.
//!
//! Every question goes to the database first; memory answers while it does not. Files: `usage` (gates, counts, records),
//! `caps` (account-wide), `cooldowns`, `probe` (snapshot and early recovery), `memory` (what no table holds), `routes`
//! (handles).

mod admission;
mod caps;
mod cooldowns;
mod file_leases;
mod memory;
mod memory_cooldowns;
mod metrics;
mod probe;
mod routes;
mod usage;

use std::rc::Rc;
use std::time::Instant;

use rustc_hash::FxHashMap;
use serde_json::json;

pub use self::admission::{Candidate, Refusal, Settled};
pub use self::cooldowns::Failure;
use self::file_leases::LeaseFile;
pub use self::file_leases::LeasePlace;
use self::memory::MemoryUsage;
use self::memory_cooldowns::MemoryCooldowns;
use self::metrics::{Gauges, Metrics};
pub use self::probe::RipeKey;
pub use self::routes::{Account, Route, Routes};
use super::Link;
use crate::core::Compat;
use crate::core::cooldown::UNKNOWN_LIMIT_WINDOW;
use crate::core::hits::HitLists;
use crate::core::leases::LeaseBook;
use crate::core::probe::Pacing;
use crate::core::snapshot::Snapshot;
use crate::core::time::DAY;
use crate::core::windows::{DayWindow, Windows};
use crate::store::sqlite::index::Index;
use crate::store::sqlite::{Conn, SqlError, SqlErrorKind};

/// How the database fails. The later one takes more to be over: a write that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// Nothing answers.
    Away,
    /// Reads answer, writes are refused: a full disk, a read-only file, a lock of another process.
    WritesRefused,
}

/// What an instance is made with.
#[derive(Debug, Clone, Copy)]
pub struct RateOptions {
    pub compat: Compat,
    pub day_window: DayWindow,
    /// Answer from memory while the database is what it was.
    pub index: bool,
    pub leases: LeasePlace,
}

/// The engine of the single-router side.
pub struct RateEngine {
    link: Link,
    compat: Compat,
    windows: Windows,
    pub routes: Routes,
    index: Option<Index>,
    leases: LeaseBook,
    lease_file: LeaseFile,
    /// Events that no database could be asked to keep.
    memory: MemoryUsage,
    /// Events that a live connection refused for now (busy, full, read-only): counted, and written back.
    backlog: MemoryUsage,
    cooldowns: MemoryCooldowns,
    ladder: HitLists,
    unknown_limit: HitLists,
    last_prune: Option<f64>,
    local_keys: FxHashMap<u64, bool>,
    snapshot: Option<Snapshot>,
    pacing: Pacing,
    metrics: Metrics,
    trouble: Option<Trouble>,
    /// Since when. Real time on purpose: an outage lasts as long as it lasts, whatever the instance's clock says.
    trouble_since: Option<Instant>,
    /// The connection that the host was last warned about.
    warned: Option<u64>,
}

impl RateEngine {
    #[must_use]
    pub fn new(link: Link, options: RateOptions) -> Self {
        let RateOptions {
            compat,
            day_window,
            index,
            leases,
        } = options;
        Self {
            link,
            compat,
            windows: Windows::new(compat, day_window),
            routes: Routes::default(),
            index: index.then(Index::new),
            leases: LeaseBook::default(),
            lease_file: LeaseFile::new(leases),
            memory: MemoryUsage::new(compat),
            backlog: MemoryUsage::new(Compat::Corrected),
            cooldowns: MemoryCooldowns::new(compat),
            ladder: HitLists::new(compat, DAY),
            // The recorded lists grow for ever: `recentHitCount` over a longer span shows it.
            unknown_limit: HitLists::new(
                compat,
                if compat.is_recorded() {
                    f64::INFINITY
                } else {
                    UNKNOWN_LIMIT_WINDOW
                },
            ),
            last_prune: None,
            local_keys: FxHashMap::default(),
            snapshot: None,
            pacing: Pacing::default(),
            metrics: Metrics::default(),
            trouble: None,
            trouble_since: None,
            warned: None,
        }
    }

    /// As after a restart of the process: memory is empty, handles stay valid. Lease ids go on counting, since requests that
    /// are in flight now may still settle; the recorded behaviour starts again from 1.
    pub fn reset(&mut self) {
        let routes = std::mem::take(&mut self.routes);
        let leases = if self.compat.is_recorded() {
            LeaseBook::default()
        } else {
            self.leases.successor()
        };
        let fresh = Self::new(
            self.link.clone(),
            RateOptions {
                compat: self.compat,
                day_window: self.windows.day_window(),
                index: self.index.is_some(),
                leases: self.lease_file.place,
            },
        );
        *self = Self {
            routes,
            leases,
            ..fresh
        };
    }

    /// Frees route handles that nothing stands on.
    pub fn sweep_routes(&mut self) {
        let in_use = self.leases.routes();
        self.routes.sweep(|route| in_use.contains(&route));
        self.cooldowns.forget_handles();
        if let Some(index) = &mut self.index {
            index.forget_handles();
        }
    }

    fn route(&self, id: u32) -> Option<Rc<Route>> {
        self.routes.get(id).cloned()
    }

    fn account(&self, id: u32) -> Option<Rc<Account>> {
        self.routes.get_account(id).cloned()
    }

    /// Looks whether memory may answer now. Call at the start of an operation; nothing may be written before its last
    /// question.
    fn look(&mut self) -> Sight {
        self.prepare_lease_file();
        let generation = self.link.generation();
        let Some(index) = self.index.as_mut() else {
            return Sight(None);
        };
        Sight(self.link.conn().filter(|conn| index.look(conn, generation)))
    }

    /// Asks the index, where the look allows it.
    fn recall<T>(
        &mut self,
        sight: &Sight,
        ask: impl FnOnce(&mut Index, &Conn) -> Option<T>,
    ) -> Option<T> {
        ask(self.index.as_mut()?, sight.0.as_ref()?)
    }

    /// Asks the database; `None` = it does not answer, memory is the answer.
    fn ask<T>(&mut self, work: impl FnOnce(&Conn) -> Result<T, SqlError>) -> Option<T> {
        let outcome = self.run(work);
        self.note(outcome.as_ref().err(), Trouble::Away);
        outcome.ok()
    }

    /// Writes to the database; the reason of a refusal.
    fn write<T>(&mut self, work: impl FnOnce(&Conn) -> Result<T, SqlError>) -> Result<T, SqlError> {
        let outcome = self.run(work);
        self.note(outcome.as_ref().err(), Trouble::WritesRefused);
        outcome
    }

    fn run<T>(&self, work: impl FnOnce(&Conn) -> Result<T, SqlError>) -> Result<T, SqlError> {
        match self.link.conn() {
            Some(conn) => work(&conn),
            None => Err(SqlError::closed()),
        }
    }

    /// Keeps track of whether the database answers, and tells the host when that changes.
    fn note(&mut self, error: Option<&SqlError>, of: Trouble) {
        match error {
            // A read that works says nothing about a full disk.
            None if self.trouble.is_some_and(|trouble| of >= trouble) => {
                self.trouble = None;
                self.metrics
                    .degraded_for(elapsed(self.trouble_since.take()));
                self.link.emit("recovered", json!({}));
            }
            Some(error) if means_away(error) => {
                let trouble = if of == Trouble::WritesRefused && means_later(error) {
                    of
                } else {
                    Trouble::Away
                };
                if self.trouble.is_none() {
                    #[allow(clippy::disallowed_methods)] // real time on purpose, see the field
                    {
                        self.trouble_since = Some(Instant::now());
                    }
                    self.link
                        .emit("degraded", json!({ "reason": error.to_string() }));
                }
                self.trouble = Some(self.trouble.map_or(trouble, |known| known.max(trouble)));
                self.warn_of(error);
            }
            _ => {}
        }
    }

    /// One warning per connection: an outage is one piece of news, however many calls it meets.
    fn warn_of(&mut self, error: &SqlError) {
        let generation = self.link.generation();
        // An instance that never had a connection is not in trouble, it is just not connected.
        if generation > 0 && self.warned != Some(generation) {
            self.warned = Some(generation);
            self.link.warn(
                "quota:degraded",
                format!("the database does not answer, memory does: {error}"),
            );
        }
    }

    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.trouble.is_some()
    }

    /// The counters in the Prometheus format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text(&Gauges {
            index: self
                .index
                .as_ref()
                .map(|index| index.stats)
                .unwrap_or_default(),
            remembered_routes: self.index.as_ref().map_or(0, Index::len),
            remembered_bytes: self.index.as_ref().map_or(0, Index::bytes),
            leases: self.leases.len(),
            leases_taken: self.leases.acquired_total(),
            leases_expired: self.leases.expired_total(),
            pending_events: self.memory.len() + self.backlog.len(),
            degraded: self.is_degraded(),
            degraded_ms: elapsed(self.trouble_since),
        })
    }

    /// How much the instance holds in memory: leases, benches, routes, events outside the database.
    #[must_use]
    pub fn inspect(&self) -> RateInspection {
        RateInspection {
            leases: self.leases.len(),
            cooldowns: self.cooldowns.len(),
            routes: self.routes.len(),
            pending_events: self.memory.len() + self.backlog.len(),
        }
    }
}

/// What a look at the database gave: the connection, where memory may answer for it.
struct Sight(Option<Conn>);

/// Counts for diagnosis.
#[derive(Debug, Clone, Copy)]
pub struct RateInspection {
    pub leases: usize,
    pub cooldowns: usize,
    pub routes: usize,
    pub pending_events: usize,
}

/// Milliseconds since an instant, 0 without one.
fn elapsed(since: Option<Instant>) -> f64 {
    since.map_or(0.0, |since| since.elapsed().as_secs_f64() * 1000.0)
}

/// Whether a refusal means that the database is away, not that the row is wrong.
fn means_away(error: &SqlError) -> bool {
    !matches!(
        error.kind(),
        SqlErrorKind::Constraint | SqlErrorKind::Overflow
    )
}

/// Whether a live connection refused a write that it may take later.
fn means_later(error: &SqlError) -> bool {
    match error.kind() {
        SqlErrorKind::Busy
        | SqlErrorKind::Full
        | SqlErrorKind::ReadOnly
        | SqlErrorKind::MissingTable
        | SqlErrorKind::Other => true,
        SqlErrorKind::Closed | SqlErrorKind::Constraint | SqlErrorKind::Overflow => false,
    }
}
