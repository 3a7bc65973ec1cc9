//! What SQLite says when it refuses, sorted by what the caller can do about it.

use std::ffi::c_int;

use libsqlite3_sys as ffi;

/// A refusal by SQLite: the extended result code and its message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (SQLite result code {code})")]
pub struct SqlError {
    pub code: c_int,
    pub message: String,
}

/// Refusals by what follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// The handle is gone: nothing works until another one is attached.
    Closed,
    /// A table or column is not there: the host has another schema.
    MissingTable,
    /// Another connection holds the lock and kept it past the busy timeout.
    Busy,
    /// No room on the disk.
    Full,
    /// The file or the connection is read-only.
    ReadOnly,
    /// The row breaks a constraint of the table.
    Constraint,
    /// An integer sum left the 64-bit range.
    Overflow,
    /// Anything else (I/O error, corruption, denied by an authorizer, interrupted…).
    Other,
}

impl SqlError {
    #[must_use]
    pub fn closed() -> Self {
        Self {
            code: ffi::SQLITE_MISUSE,
            message: "the database connection is closed".to_owned(),
        }
    }

    #[must_use]
    pub fn kind(&self) -> SqlErrorKind {
        match self.code & 0xff {
            ffi::SQLITE_MISUSE => SqlErrorKind::Closed,
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => SqlErrorKind::Busy,
            ffi::SQLITE_FULL => SqlErrorKind::Full,
            ffi::SQLITE_READONLY => SqlErrorKind::ReadOnly,
            ffi::SQLITE_CONSTRAINT => SqlErrorKind::Constraint,
            ffi::SQLITE_ERROR
                if self.message.contains("no such table")
                    || self.message.contains("no such column") =>
            {
                SqlErrorKind::MissingTable
            }
            ffi::SQLITE_ERROR if self.message.contains("integer overflow") => {
                SqlErrorKind::Overflow
            }
            _ => SqlErrorKind::Other,
        }
    }
}
