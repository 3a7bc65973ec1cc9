//! Quota sharing of one instance: who may spend, what was spent, who used how much. Asks the store, lets the core decide.
//!
//! Signals of providers come from outside: an enforcement that lacks them says which it needs and is asked again.

pub mod access;
mod enforce;
mod plans;
mod record;
mod snapshot;

pub use enforce::{Block, BlockedBy, EnforceRequest, Grounds, Outcome};
pub use plans::{Plan, ResolvedPlan};
pub use record::{Cost, Target};
pub use snapshot::{Snapshot, SnapshotDimension, UsageView};

use crate::core::Compat;
use crate::engine::Link;
use plans::PlanShelf;

/// The state of quota sharing that is no database row.
pub struct ShareEngine {
    link: Link,
    compat: Compat,
    plans: PlanShelf,
}

impl ShareEngine {
    #[must_use]
    pub fn new(link: Link, compat: Compat) -> Self {
        Self {
            link,
            compat,
            plans: PlanShelf::default(),
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
    }
}
