//! Leases in the file (`leases: 'file'`): processes on one machine see each other's requests in flight. Owns when the file is
//! read and written; the book in memory is what the file says, and the gates read the book.
//!
//! While the file cannot be written, leases are this process's own again, under ids that the file never gives.

use super::{RateEngine, Trouble};
use crate::core::leases::{LEASE_MAX_AGE, Lease};
use crate::store::sqlite::lease_rows::{self, LeaseRow};
use crate::store::sqlite::{SqlError, SqlErrorKind};

/// Ids from here on are of leases that are in no file. Below 2^37, as admission packs them.
const OUTSIDE_THE_FILE: u64 = 1 << 36;

/// Where leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePlace {
    Memory,
    File,
}

/// Whether leases go to the file, and for which connection its table is known to be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseFile {
    pub place: LeasePlace,
    ready: Option<u64>,
    /// The lease that the step under way took.
    taken: Option<u64>,
}

impl LeaseFile {
    pub fn new(place: LeasePlace) -> Self {
        Self {
            place,
            ready: None,
            taken: None,
        }
    }
}

impl RateEngine {
    fn uses_lease_file(&self) -> bool {
        self.lease_file.place == LeasePlace::File
            && self.lease_file.ready == Some(self.link.generation())
    }

    /// Creates the table where a connection lacks it. Call before anything is looked at.
    pub(super) fn prepare_lease_file(&mut self) {
        if self.lease_file.place == LeasePlace::Memory || self.uses_lease_file() {
            return;
        }
        self.leases.number_from(OUTSIDE_THE_FILE);
        let generation = self.link.generation();
        let ready = self.link.conn().is_some() && self.write(lease_rows::ensure).is_ok();
        if ready {
            // Perhaps another file: what it says of leases is its own. What is in it comes back as it is read.
            self.leases.lose_sight(OUTSIDE_THE_FILE);
        }
        self.lease_file.ready = ready.then_some(generation);
    }

    /// Brings the book up to date and drops what is too old. Call before leases are read.
    pub(super) fn expire_leases(&mut self, now: f64) {
        self.prepare_lease_file();
        if let Some(rows) = self.lease_rows(now) {
            let committed = self.link.conn().is_some_and(|conn| conn.autocommit());
            for row in &rows {
                if self.leases.contains(row.id) {
                    if committed {
                        self.leases.kept(row.id);
                    }
                } else {
                    let route = self.routes.route(&row.platform, &row.model, row.key);
                    let account = self.routes.account(&row.platform, row.key);
                    let lease = Lease {
                        route,
                        account,
                        tokens: row.tokens,
                        created_at: row.created_at,
                    };
                    self.leases.learn(row.id, lease);
                }
            }
            // Both are in the order of ids.
            let mut rows = rows.iter().map(|row| row.id).peekable();
            let vanished: Vec<u64> = self
                .leases
                .ids()
                .take_while(|id| *id < OUTSIDE_THE_FILE)
                .filter(|id| {
                    while rows.next_if(|row| row < id).is_some() {}
                    rows.peek() != Some(id)
                })
                .collect();
            for id in vanished {
                self.leases.vanished(id, now);
            }
        }
        self.leases.expire(now);
    }

    /// What the file says; nothing when it is not used, or does not answer.
    fn lease_rows(&mut self, now: f64) -> Option<Vec<LeaseRow>> {
        if !self.uses_lease_file() {
            return None;
        }
        match self.run(|conn| lease_rows::since(conn, now - LEASE_MAX_AGE)) {
            Ok(rows) => Some(rows),
            // Created in a transaction of the host that was rolled back, and the leases with it; or dropped.
            Err(error) if error.kind() == SqlErrorKind::MissingTable => {
                self.lease_file.ready = None;
                self.leases.lose_sight(OUTSIDE_THE_FILE);
                None
            }
            Err(error) => {
                self.note(Some(&error), Trouble::Away);
                None
            }
        }
    }

    /// Runs a check and what it leads to as one step of the file: nobody else takes a lease in between.
    pub(super) fn in_one_step<T>(&mut self, now: f64, work: impl FnOnce(&mut Self) -> T) -> T {
        self.prepare_lease_file();
        let Some(conn) = self.link.conn().filter(|_| self.uses_lease_file()) else {
            return work(self);
        };
        let mut work = Some(work);
        let mut done = None;
        self.lease_file.taken = None;
        let outcome = conn.write_transaction(|conn| {
            // Takes the file's lock before anything is read.
            lease_rows::collect(conn, now - LEASE_MAX_AGE)?;
            done = work.take().map(|work| work(&mut *self));
            Ok::<(), SqlError>(())
        });
        self.note(outcome.as_ref().err(), Trouble::WritesRefused);
        if let Some(taken) = self.lease_file.taken.take()
            && outcome.is_ok()
            && conn.autocommit()
        {
            self.leases.kept(taken);
        }
        match (done, work) {
            (Some(done), _) => done,
            // The lock was not to be had: as without a file.
            (None, Some(work)) => work(self),
            (None, None) => unreachable!("the work is done or still to do"),
        }
    }

    /// Takes a lease, in the file where it can be written.
    pub(super) fn take_lease(&mut self, lease: Lease) -> u64 {
        if self.uses_lease_file()
            && let Some(route) = self.route(lease.route)
        {
            let Lease {
                tokens, created_at, ..
            } = lease;
            let row =
                self.write(|conn| lease_rows::insert(conn, &route.name(), tokens, created_at));
            if let Ok(Some(id)) = row {
                self.leases.acquire_as(id, lease);
                self.lease_file.taken = Some(id);
                if self.link.conn().is_some_and(|conn| conn.autocommit()) {
                    self.leases.kept(id);
                }
                return id;
            }
        }
        self.leases.acquire(lease)
    }

    /// Gives a lease back.
    pub(super) fn give_lease_back(&mut self, id: u64) -> Option<Lease> {
        if self.uses_lease_file() && id < OUTSIDE_THE_FILE {
            // A row that stays is dropped by its age.
            let _ = self.write(|conn| lease_rows::delete(conn, id));
        }
        self.leases.release(id)
    }
}
