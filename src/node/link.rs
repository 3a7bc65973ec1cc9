//! The connection slot of an instance, as JavaScript handles it.

use std::cell::RefCell;

use napi_derive::napi;

use super::error::{Code, Result, fail};
use super::to_u32;
use crate::engine::{Link as EngineLink, Notice, WeakLink};
use crate::store::sqlite::schema;
use crate::store::sqlite::server_logs::{self, LogLine};
use crate::store::sqlite::{Conn, SqlErrorKind};

/// A connection that this addon has taken from the host, or opened itself.
#[napi]
pub struct Connection(Conn);

#[napi]
impl Connection {
    #[napi(getter, catch_unwind)]
    pub fn open(&self) -> bool {
        self.0.is_open()
    }

    /// Closes a connection that this addon opened. One of the host stays as it is.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.0.close_own();
    }
}

/// Call right before the host's `loadExtension`: whatever an earlier load left behind is forgotten.
#[napi(catch_unwind)]
pub fn expect_load() {
    Conn::expect_load();
}

/// Call right after the host's `loadExtension`: takes the connection that was loaded into.
#[napi(catch_unwind)]
pub fn adopt() -> Result<Connection> {
    Ok(Connection(Conn::adopt()?))
}

/// Opens a file of our own and creates its tables. A file that cannot be written is used as it is.
#[napi(catch_unwind)]
pub fn open_file(path: String) -> Result<Connection> {
    let conn = if path == ":memory:" {
        Conn::open_memory()?
    } else {
        Conn::open(std::path::Path::new(&path))?
    };
    match schema::ensure(&conn).map_err(|error| (error.kind(), error)) {
        Ok(()) | Err((SqlErrorKind::ReadOnly | SqlErrorKind::Busy | SqlErrorKind::Full, _)) => {
            Ok(Connection(conn))
        }
        Err((_, error)) => {
            conn.close_own();
            fail(Code::Open, format!("{path}: {error}"))
        }
    }
}

/// The file that this addon was loaded from; null where the system does not tell.
#[napi(catch_unwind)]
pub fn library_path() -> Option<String> {
    crate::store::sqlite::library_path()
}

/// A queued warning or event.
#[napi(object)]
pub struct QueuedNotice {
    /// `warning` or `event`.
    pub kind: String,
    /// The warning's tag or the event's name.
    pub name: String,
    /// The warning's text, or the event's payload as JSON.
    pub text: String,
}

thread_local! {
    /// Links of this thread by number, for the question that every call of an instance asks. The JavaScript object owns the link.
    static LINKS: RefCell<Vec<WeakLink>> = const { RefCell::new(Vec::new()) };
}

/// 1 when the host closed the connection in use; 0 also when there never was one.
#[expect(clippy::unnecessary_wraps, reason = "as every function of the table")]
pub(super) fn is_link_closed([link]: [f64; 1]) -> Result<f64> {
    let closed = LINKS.with_borrow(|links| {
        links
            .get(link as usize)
            .and_then(WeakLink::upgrade)
            .is_some_and(|link| link.is_closed())
    });
    Ok(f64::from(u8::from(closed)))
}

/// What the parts of one instance share.
#[napi]
pub struct Link {
    pub(super) link: EngineLink,
    number: u32,
}

impl Drop for Link {
    fn drop(&mut self) {
        // A weak handle would keep the room of the link. The thread may be gone already when its objects are collected.
        let _ = LINKS.try_with(|links| {
            if let Ok(mut links) = links.try_borrow_mut()
                && let Some(slot) = links.get_mut(self.number as usize)
            {
                *slot = WeakLink::default();
            }
        });
    }
}

#[napi]
impl Link {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default)] // constructed by JavaScript only
    pub fn new() -> Self {
        let link = EngineLink::default();
        let number = LINKS.with_borrow_mut(|links| {
            links.push(link.downgrade());
            to_u32(links.len() - 1)
        });
        Self { link, number }
    }

    /// The number under which hot calls find this link.
    #[napi(getter, catch_unwind)]
    pub fn number(&self) -> u32 {
        self.number
    }

    #[napi(catch_unwind)]
    pub fn connect(&self, connection: &Connection) {
        self.link.set_conn(Some(connection.0.clone()));
    }

    #[napi(catch_unwind)]
    pub fn disconnect(&self) {
        self.link.set_conn(None);
    }

    /// The host named a connection that cannot be used yet.
    #[napi(catch_unwind)]
    pub fn refuse(&self) {
        self.link.refuse();
    }

    /// Writes a line into the host's `server_logs`, where it has such a table; whether it did.
    #[napi(catch_unwind)]
    pub fn write_server_log(&self, level: String, tag: String, message: String, now: f64) -> bool {
        let line = LogLine {
            level: &level,
            tag: &tag,
            message: &message,
            at: now,
        };
        self.link
            .conn()
            .is_some_and(|conn| server_logs::write(&conn, line).unwrap_or(false))
    }

    /// Whether `take_notices` has something to give.
    #[napi(getter, catch_unwind)]
    pub fn pending(&self) -> bool {
        self.link.has_notices()
    }

    #[napi(catch_unwind)]
    pub fn take_notices(&self) -> Vec<QueuedNotice> {
        self.link
            .take_notices()
            .into_iter()
            .map(|notice| match notice {
                Notice::Warning { tag, message } => QueuedNotice {
                    kind: "warning".to_owned(),
                    name: tag.to_owned(),
                    text: message,
                },
                Notice::Event { name, payload } => QueuedNotice {
                    kind: "event".to_owned(),
                    name: name.to_owned(),
                    text: payload.to_string(),
                },
            })
            .collect()
    }
}
