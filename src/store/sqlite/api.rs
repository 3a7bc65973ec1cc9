//! The SQLite functions that the statement layer calls, as one copy per connection.
//!
//! A process may hold several copies of SQLite (better-sqlite3 ships one, Node.js another, this crate a third). A
//! handle may only be passed to the copy that made it, so every connection carries the functions of its own copy. This
//! file knows slots and signatures, nothing else.

use std::ffi::{c_char, c_int, c_void};

use libsqlite3_sys as ffi;

pub type Db = ffi::sqlite3;
pub type RawStmt = ffi::sqlite3_stmt;
/// Called for each changed row: argument, operation, database, table, rowid.
pub type UpdateHook =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char, i64)>;
pub type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// A function pointer of unknown signature, as the extension API table holds them.
type Slot = Option<unsafe extern "C" fn()>;

/// The oldest SQLite that is accepted: `sqlite3_txn_state` appeared in it.
pub const MIN_VERSION: c_int = 3_034_000;

macro_rules! api {
    ($( $name:ident @ $slot:literal : fn( $($arg:ty),* $(,)? ) $(-> $ret:ty)? , bundled $bundled:path ; )*) => {
        /// The functions of one copy of SQLite.
        #[derive(Clone, Copy)]
        #[allow(clippy::struct_field_names)]
        pub struct Api {
            $( pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?, )*
        }

        impl Api {
            /// Reads the table that SQLite hands to an extension's entry point.
            ///
            /// # Safety
            /// `table` is the `sqlite3_api_routines` pointer of a live copy of SQLite. The table only ever grows, so
            /// a slot exists when the version that introduced it has been reached.
            pub unsafe fn from_table(table: *const c_void) -> Result<Self, ApiError> {
                if table.is_null() {
                    return Err(ApiError::NoTable);
                }
                let slots = table.cast::<Slot>();
                // SAFETY: slot 67 is `libversion_number` in every SQLite since 3.3.13 (2007).
                let version = unsafe {
                    let raw = *slots.add(LIBVERSION_SLOT);
                    let Some(raw) = raw else { return Err(ApiError::Missing("libversion_number")) };
                    let call: unsafe extern "C" fn() -> c_int = std::mem::transmute(raw);
                    call()
                };
                if version < MIN_VERSION {
                    return Err(ApiError::TooOld(version));
                }
                // SAFETY: the version check above covers the newest slot that is read; a slot holds the function that
                // the header names, with the signature given here (compared with the header by a test).
                unsafe {
                    Ok(Self {
                        $( $name: {
                            let raw: Slot = *slots.add($slot);
                            let Some(raw) = raw else { return Err(ApiError::Missing(stringify!($name))) };
                            std::mem::transmute::<unsafe extern "C" fn(), unsafe extern "C" fn($($arg),*) $(-> $ret)?>(raw)
                        }, )*
                    })
                }
            }

            /// The copy of SQLite that is linked into this crate.
            #[must_use]
            pub fn bundled() -> Self {
                Self { $( $name: $bundled, )* }
            }

            #[cfg(test)]
            const SLOTS: &'static [(&'static str, usize)] = &[ $( (stringify!($name), $slot) ),* ];
        }
    };
}

const LIBVERSION_SLOT: usize = 67;

api! {
    bind_double @ 3: fn(*mut RawStmt, c_int, f64) -> c_int, bundled ffi::sqlite3_bind_double;
    bind_int64 @ 5: fn(*mut RawStmt, c_int, i64) -> c_int, bundled ffi::sqlite3_bind_int64;
    bind_null @ 6: fn(*mut RawStmt, c_int) -> c_int, bundled ffi::sqlite3_bind_null;
    bind_text @ 10: fn(*mut RawStmt, c_int, *const c_char, c_int, Destructor) -> c_int, bundled ffi::sqlite3_bind_text;
    changes @ 15: fn(*mut Db) -> c_int, bundled ffi::sqlite3_changes;
    column_bytes @ 20: fn(*mut RawStmt, c_int) -> c_int, bundled ffi::sqlite3_column_bytes;
    column_double @ 27: fn(*mut RawStmt, c_int) -> f64, bundled ffi::sqlite3_column_double;
    column_int64 @ 29: fn(*mut RawStmt, c_int) -> i64, bundled ffi::sqlite3_column_int64;
    column_text @ 36: fn(*mut RawStmt, c_int) -> *const u8, bundled ffi::sqlite3_column_text;
    column_type @ 38: fn(*mut RawStmt, c_int) -> c_int, bundled ffi::sqlite3_column_type;
    declare_vtab @ 50: fn(*mut Db, *const c_char) -> c_int, bundled ffi::sqlite3_declare_vtab;
    errmsg @ 53: fn(*mut Db) -> *const c_char, bundled ffi::sqlite3_errmsg;
    finalize @ 57: fn(*mut RawStmt) -> c_int, bundled ffi::sqlite3_finalize;
    get_autocommit @ 60: fn(*mut Db) -> c_int, bundled ffi::sqlite3_get_autocommit;
    reset @ 77: fn(*mut RawStmt) -> c_int, bundled ffi::sqlite3_reset;
    step @ 94: fn(*mut RawStmt) -> c_int, bundled ffi::sqlite3_step;
    total_changes @ 97: fn(*mut Db) -> c_int, bundled ffi::sqlite3_total_changes;
    update_hook @ 100: fn(*mut Db, UpdateHook, *mut c_void) -> *mut c_void, bundled ffi::sqlite3_update_hook;
    clear_bindings @ 118: fn(*mut RawStmt) -> c_int, bundled ffi::sqlite3_clear_bindings;
    create_module_v2 @ 119: fn(*mut Db, *const c_char, *const ffi::sqlite3_module, *mut c_void, Destructor) -> c_int, bundled ffi::sqlite3_create_module_v2;
    file_control @ 127: fn(*mut Db, *const c_char, c_int, *mut c_void) -> c_int, bundled ffi::sqlite3_file_control;
    extended_errcode @ 166: fn(*mut Db) -> c_int, bundled ffi::sqlite3_extended_errcode;
    db_filename @ 180: fn(*mut Db, *const c_char) -> *const c_char, bundled ffi::sqlite3_db_filename;
    prepare_v3 @ 217: fn(*mut Db, *const c_char, c_int, u32, *mut *mut RawStmt, *mut *const c_char) -> c_int, bundled ffi::sqlite3_prepare_v3;
    txn_state @ 252: fn(*mut Db, *const c_char) -> c_int, bundled ffi::sqlite3_txn_state;
}

impl Api {
    /// Tells copies of SQLite apart: the address of one of their functions.
    #[must_use]
    pub fn identity(&self) -> usize {
        self.prepare_v3 as usize
    }
}

/// Why the functions of a copy of SQLite could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("SQLite passed no function table")]
    NoTable,
    #[error("SQLite {0} is too old, {MIN_VERSION} or newer is needed")]
    TooOld(c_int),
    #[error("this build of SQLite lacks sqlite3_{0}")]
    Missing(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field names of `struct sqlite3_api_routines`, in order, read from the header of the bundled source.
    fn header_order() -> Vec<String> {
        let path = std::path::Path::new(env!("QUOTA_CORE_SQLITE3_INCLUDE")).join("sqlite3ext.h");
        let text =
            std::fs::read_to_string(path).expect("the bundled SQLite has its header beside it");
        let start = text.find("struct sqlite3_api_routines {").expect("struct");
        let body = &text[start..];
        let body = &body[body.find('{').expect("brace") + 1..body.find("\n};").expect("end")];
        let comments = regex::Regex::new(r"(?s)/\*.*?\*/").expect("regex");
        let body = comments.replace_all(body, "");
        let name = regex::Regex::new(r"\(\s*\*\s*(\w+)\s*\)").expect("regex");
        body.split(';')
            .filter(|member| !member.trim().is_empty())
            .map(|member| {
                name.captures(member)
                    .map_or_else(String::new, |found| found[1].to_owned())
            })
            .collect()
    }

    #[test]
    fn every_slot_is_where_the_header_puts_it() {
        let order = header_order();
        assert!(order.len() > 250);
        for (name, slot) in Api::SLOTS {
            // The header appends an underscore to names that collide with a macro.
            assert_eq!(order[*slot].trim_end_matches('_'), *name, "slot {slot}");
        }
    }

    #[test]
    fn no_table_is_an_error() {
        // SAFETY: a null table is checked before anything is read.
        let none = unsafe { Api::from_table(std::ptr::null()) };
        assert_eq!(none.err(), Some(ApiError::NoTable));
    }
}
