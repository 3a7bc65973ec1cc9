//! Quota sharing of one instance: who may spend, what was spent, who used how much. Asks the store, lets the core decide.
//!
//! Signals of providers come from outside: an enforcement that lacks them says which it needs and is asked again.

pub mod access;
mod counters;
mod enforce;
mod memory;
mod plans;
mod record;
mod snapshot;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

pub use enforce::{Block, BlockedBy, EnforceRequest, Grounds, Outcome};
pub use plans::{Plan, ResolvedPlan};
pub use record::{Cost, Recorded, Target};
pub use snapshot::{Snapshot, SnapshotDimension, UsageView};

use crate::core::Compat;
use crate::engine::Link;
use crate::store::sqlite::{Conn, SqlError};
use memory::{Added, Memory, View};
use plans::PlanShelf;

/// The state of quota sharing that is no database row.
pub struct ShareEngine {
    link: Link,
    compat: Compat,
    plans: PlanShelf,
    memory: RefCell<Memory>,
}

impl ShareEngine {
    #[must_use]
    pub fn new(link: Link, compat: Compat) -> Self {
        Self {
            link,
            compat,
            plans: PlanShelf::default(),
            memory: RefCell::default(),
        }
    }

    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    #[must_use]
    pub fn compat(&self) -> Compat {
        self.compat
    }

    /// As after a restart.
    pub fn reset(&self) {
        self.plans.clear();
        self.memory.replace(Memory::default());
    }

    /// Runs `work` on the database as it is now: through what is kept of it where that is still true.
    fn view<T>(&self, conn: &Conn, work: impl FnOnce(&mut View<'_>) -> T) -> T {
        // Busy: a function of the host that a statement called came back here.
        if let Ok(mut memory) = self.memory.try_borrow_mut()
            && memory.refresh(conn, self.link.generation())
        {
            return work(&mut View {
                conn,
                memory: Some(&mut memory),
            });
        }
        work(&mut View { conn, memory: None })
    }

    /// Runs an own write of counters and moves what is kept along with it. `write` returns what it added.
    fn write<'a>(
        &self,
        conn: &Conn,
        write: impl FnOnce() -> Result<Vec<Added<'a>>, SqlError>,
    ) -> Result<(), SqlError> {
        let added = write()?;
        if let Ok(mut memory) = self.memory.try_borrow_mut() {
            memory.written(conn, self.link.generation(), &added);
        }
        Ok(())
    }
}
