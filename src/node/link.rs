//! The connection slot of an instance, as JavaScript handles it.

use napi_derive::napi;

use super::error::{Code, Result, fail};
use crate::engine::{Link as EngineLink, Notice};
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

/// What the parts of one instance share.
#[napi]
pub struct Link(pub(super) EngineLink);

#[napi]
impl Link {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default)] // constructed by JavaScript only
    pub fn new() -> Self {
        Self(EngineLink::default())
    }

    #[napi(catch_unwind)]
    pub fn connect(&self, connection: &Connection) {
        self.0.set_conn(Some(connection.0.clone()));
    }

    #[napi(catch_unwind)]
    pub fn disconnect(&self) {
        self.0.set_conn(None);
    }

    /// Whether the host closed the connection in use; false when there never was one.
    #[napi(getter, catch_unwind)]
    pub fn closed(&self) -> bool {
        self.0.is_closed()
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
        self.0
            .conn()
            .is_some_and(|conn| server_logs::write(&conn, line).unwrap_or(false))
    }

    /// Whether `take_notices` has something to give.
    #[napi(getter, catch_unwind)]
    pub fn pending(&self) -> bool {
        self.0.has_notices()
    }

    #[napi(catch_unwind)]
    pub fn take_notices(&self) -> Vec<QueuedNotice> {
        self.0
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
