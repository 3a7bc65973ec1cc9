//! One prepared statement on one connection: bind, step, read, reset. Knows no SQL of its own.

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

use libsqlite3_sys as ffi;

use super::api::{Api, Db, RawStmt};
use super::error::SqlError;

/// A value bound to a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Param<'a> {
    Null,
    Int(i64),
    /// A JavaScript number, bound as better-sqlite3 binds it: a 32-bit integer as INTEGER, anything else as REAL (a
    /// column of INTEGER affinity then stores a whole REAL as an integer again).
    Num(f64),
    Text(&'a str),
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Param<'_> {
    fn from(number: f64) -> Self {
        Self::Num(number)
    }
}

impl From<Option<f64>> for Param<'_> {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Null, Self::Num)
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// A prepared statement. Whoever holds it must drop it with [`Statement::finalize`] before the connection goes.
pub struct Statement {
    raw: NonNull<RawStmt>,
}

impl Statement {
    /// # Safety
    /// `db` is a live handle made by the copy of SQLite behind `api`, and the caller is on its thread.
    pub unsafe fn prepare(
        api: &Api,
        db: *mut Db,
        sql: &str,
        persistent: bool,
    ) -> Result<Self, SqlError> {
        let Ok(length) = c_int::try_from(sql.len()) else {
            return Err(SqlError {
                code: ffi::SQLITE_TOOBIG,
                message: "statement too long".to_owned(),
            });
        };
        let flags = if persistent {
            ffi::SQLITE_PREPARE_PERSISTENT
        } else {
            0
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: `sql` is valid for `length` bytes, and SQLite does not keep it.
        let code = unsafe {
            (api.prepare_v3)(
                db,
                sql.as_ptr().cast::<c_char>(),
                length,
                flags,
                &raw mut raw,
                std::ptr::null_mut(),
            )
        };
        if code != ffi::SQLITE_OK {
            // SAFETY: as above, the handle is live.
            return Err(unsafe { last_error(api, db) });
        }
        NonNull::new(raw)
            .map(|raw| Self { raw })
            .ok_or_else(|| SqlError {
                code: ffi::SQLITE_ERROR,
                message: "empty statement".to_owned(),
            })
    }

    /// # Safety
    /// As for [`Statement::prepare`]. Bound texts must live until the statement is reset and its bindings cleared.
    pub unsafe fn bind(
        &self,
        api: &Api,
        db: *mut Db,
        params: &[Param<'_>],
    ) -> Result<(), SqlError> {
        let raw = self.raw.as_ptr();
        for (position, param) in params.iter().enumerate() {
            let index = c_int::try_from(position + 1).unwrap_or(c_int::MAX);
            // SAFETY: the statement belongs to this copy; a static destructor (null) is right because the caller keeps
            // the text alive until the bindings are cleared.
            let code = unsafe {
                match *param {
                    Param::Null => (api.bind_null)(raw, index),
                    Param::Int(value) => (api.bind_int64)(raw, index, value),
                    Param::Num(value) => match as_int32(value) {
                        Some(whole) => (api.bind_int64)(raw, index, whole),
                        None => (api.bind_double)(raw, index, value),
                    },
                    Param::Text(text) => match c_int::try_from(text.len()) {
                        // An empty slice may dangle: SQLite would read a null pointer as NULL, never as ''.
                        Ok(0) => (api.bind_text)(raw, index, c"".as_ptr(), 0, None),
                        Ok(length) => (api.bind_text)(
                            raw,
                            index,
                            text.as_ptr().cast::<c_char>(),
                            length,
                            None,
                        ),
                        Err(_) => ffi::SQLITE_TOOBIG,
                    },
                }
            };
            if code == ffi::SQLITE_TOOBIG {
                return Err(SqlError {
                    code,
                    message: "string or blob too big".to_owned(),
                });
            }
            if code != ffi::SQLITE_OK {
                // SAFETY: the handle is live.
                return Err(unsafe { last_error(api, db) });
            }
        }
        Ok(())
    }

    /// One step: `true` when a row is there.
    ///
    /// # Safety
    /// As for [`Statement::prepare`].
    pub unsafe fn step(&self, api: &Api, db: *mut Db) -> Result<bool, SqlError> {
        // SAFETY: the statement belongs to this copy.
        match unsafe { (api.step)(self.raw.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            // SAFETY: the handle is live.
            _ => Err(unsafe { last_error(api, db) }),
        }
    }

    pub fn row<'s>(&'s self, api: &'s Api) -> Row<'s> {
        Row {
            raw: self.raw.as_ptr(),
            api,
            statement: PhantomData,
        }
    }

    /// # Safety
    /// As for [`Statement::prepare`].
    pub unsafe fn reset(&self, api: &Api) {
        // SAFETY: the statement belongs to this copy. The code only repeats the last step's error.
        unsafe {
            (api.reset)(self.raw.as_ptr());
            (api.clear_bindings)(self.raw.as_ptr());
        }
    }

    /// # Safety
    /// As for [`Statement::prepare`].
    pub unsafe fn finalize(self, api: &Api) {
        // SAFETY: the statement belongs to this copy and is consumed here.
        unsafe { (api.finalize)(self.raw.as_ptr()) };
    }
}

/// The current row of a statement.
pub struct Row<'s> {
    raw: *mut RawStmt,
    api: &'s Api,
    statement: PhantomData<&'s Statement>,
}

impl Row<'_> {
    fn column_type(&self, index: usize) -> (c_int, c_int) {
        let column = c_int::try_from(index).unwrap_or(c_int::MAX);
        // SAFETY: a row exists only while its statement stands on one; an index out of range reads as NULL.
        (column, unsafe { (self.api.column_type)(self.raw, column) })
    }

    #[must_use]
    pub fn is_null(&self, index: usize) -> bool {
        self.column_type(index).1 == ffi::SQLITE_NULL
    }

    /// The number as JavaScript would see it; `None` for NULL. Text reads as SQLite converts it.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // better-sqlite3 hands out 64-bit integers as doubles, rounded likewise
    pub fn num(&self, index: usize) -> Option<f64> {
        let (column, kind) = self.column_type(index);
        match kind {
            ffi::SQLITE_NULL => None,
            ffi::SQLITE_INTEGER => {
                // SAFETY: as in `column_type`.
                Some(unsafe { (self.api.column_int64)(self.raw, column) } as f64)
            }
            // SAFETY: as in `column_type`.
            _ => Some(unsafe { (self.api.column_double)(self.raw, column) }),
        }
    }

    /// The integer; `None` for NULL. A REAL is cut towards zero, as SQLite does.
    #[must_use]
    pub fn int(&self, index: usize) -> Option<i64> {
        let (column, kind) = self.column_type(index);
        // SAFETY: as in `column_type`.
        (kind != ffi::SQLITE_NULL).then(|| unsafe { (self.api.column_int64)(self.raw, column) })
    }

    /// The number when the column holds one: `None` for NULL, text and blobs.
    #[must_use]
    pub fn number_only(&self, index: usize) -> Option<f64> {
        match self.column_type(index).1 {
            ffi::SQLITE_INTEGER | ffi::SQLITE_FLOAT => self.num(index),
            _ => None,
        }
    }

    /// The text; `None` for NULL and for bytes that are not UTF-8.
    #[must_use]
    pub fn text(&self, index: usize) -> Option<&str> {
        let (column, kind) = self.column_type(index);
        if kind == ffi::SQLITE_NULL {
            return None;
        }
        // SAFETY: the pointer stays valid until the next step, reset or conversion of this column; the borrow of the
        // row ends before any of them. `column_text` is called before `column_bytes`, as the manual asks.
        let bytes = unsafe {
            let start = (self.api.column_text)(self.raw, column);
            if start.is_null() {
                return None;
            }
            let length = usize::try_from((self.api.column_bytes)(self.raw, column)).unwrap_or(0);
            std::slice::from_raw_parts(start, length)
        };
        std::str::from_utf8(bytes).ok()
    }

    /// The text when the column holds one: `None` for NULL, numbers, blobs, and bytes that are not UTF-8.
    #[must_use]
    pub fn text_only(&self, index: usize) -> Option<&str> {
        (self.column_type(index).1 == ffi::SQLITE_TEXT)
            .then(|| self.text(index))
            .flatten()
    }

    #[must_use]
    pub fn string(&self, index: usize) -> Option<String> {
        self.text(index).map(str::to_owned)
    }
}

fn as_int32(value: f64) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation)] // the round trip below refuses what did not fit
    let whole = value as i32;
    // The sign bit keeps -0 a REAL, as better-sqlite3 does.
    (f64::from(whole).to_bits() == value.to_bits()).then_some(i64::from(whole))
}

/// # Safety
/// `db` is a live handle of the copy of SQLite behind `api`.
pub unsafe fn last_error(api: &Api, db: *mut Db) -> SqlError {
    // SAFETY: the message is valid until the next call on the handle; it is copied at once.
    unsafe {
        let code = (api.extended_errcode)(db);
        let message = (api.errmsg)(db);
        let message = if message.is_null() {
            String::new()
        } else {
            std::ffi::CStr::from_ptr(message)
                .to_string_lossy()
                .into_owned()
        };
        SqlError { code, message }
    }
}
