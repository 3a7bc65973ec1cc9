//! What the parts of one instance share: the current connection, and what they have to tell the host.
//!
//! Parts never call the host back; they queue a warning or an event, and the facade collects the queue.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use serde_json::Value;

use crate::store::sqlite::Conn;

/// Something to tell the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A line for the logger.
    Warning { tag: &'static str, message: String },
    /// An event for `core.on(name, …)`.
    Event { name: &'static str, payload: Value },
}

#[derive(Default)]
struct State {
    conn: RefCell<Option<Conn>>,
    /// Counts changes of the connection, so that a cache can tell whose answers it holds.
    generation: Cell<u64>,
    refused: Cell<bool>,
    notices: RefCell<Vec<Notice>>,
}

/// The shared slot. A cheap handle.
#[derive(Clone, Default)]
pub struct Link(Rc<State>);

/// A handle that keeps nothing alive.
#[derive(Default)]
pub struct WeakLink(Weak<State>);

impl WeakLink {
    #[must_use]
    pub fn upgrade(&self) -> Option<Link> {
        self.0.upgrade().map(Link)
    }
}

/// A host that never collects must not make the queue grow for ever.
const MAX_NOTICES: usize = 10_000;

impl Link {
    #[must_use]
    pub fn downgrade(&self) -> WeakLink {
        WeakLink(Rc::downgrade(&self.0))
    }

    /// The connection, while there is an open one.
    #[must_use]
    pub fn conn(&self) -> Option<Conn> {
        self.0
            .conn
            .borrow()
            .as_ref()
            .filter(|conn| conn.is_open())
            .cloned()
    }

    /// Whether the connection in use was closed by its owner. False when there never was one.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0
            .conn
            .borrow()
            .as_ref()
            .is_some_and(|conn| !conn.is_open())
    }

    /// Replaces the connection; the same one again changes nothing.
    pub fn set_conn(&self, conn: Option<Conn>) {
        let mut slot = self.0.conn.borrow_mut();
        let same = match (&*slot, &conn) {
            (Some(old), Some(new)) => old.same_as(new),
            (None, None) => true,
            _ => false,
        };
        if !same {
            *slot = conn;
            self.0.generation.set(self.0.generation.get() + 1);
        }
        self.0.refused.set(false);
    }

    /// The host named a connection that cannot be used yet, such as one in the middle of a loop.
    pub fn refuse(&self) {
        self.0.refused.set(true);
    }

    /// Whether there is a connection that may be used later.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.0.refused.get()
    }

    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation.get()
    }

    pub fn warn(&self, tag: &'static str, message: impl Into<String>) {
        self.push(Notice::Warning {
            tag,
            message: message.into(),
        });
    }

    pub fn emit(&self, name: &'static str, payload: Value) {
        self.push(Notice::Event { name, payload });
    }

    fn push(&self, notice: Notice) {
        let mut notices = self.0.notices.borrow_mut();
        if notices.len() < MAX_NOTICES {
            notices.push(notice);
        }
    }

    #[must_use]
    pub fn has_notices(&self) -> bool {
        !self.0.notices.borrow().is_empty()
    }

    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.0.notices.borrow_mut())
    }
}
