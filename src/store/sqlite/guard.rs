//! The guard: an eponymous virtual table that tells when a host closes its connection.
//!
//! better-sqlite3 closes with `sqlite3_close` and ignores `SQLITE_BUSY`: one cached statement of ours would keep the
//! handle, and with it the `-wal` and `-shm` files, alive. SQLite disconnects virtual tables before it looks for
//! statements, so `xDisconnect` is the moment to finalize ours; `xDestroy` of the module is the last sign of life of a
//! handle. This file owns the module and its callbacks; it runs no query but the one that connects the table.

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use libsqlite3_sys as ffi;

use super::api::Db;
use super::connection::Shared;
use super::error::SqlError;
use super::statement::{Statement, last_error};

/// A name of this very copy of the addon: registering a taken name would destroy the guard of the other copy, when a
/// process has two installed and both use one connection.
fn name() -> String {
    format!("quota_core_guard_{:x}", &raw const MODULE as usize)
}

/// What SQLite sees of a connected guard. The base comes first: SQLite casts between the two.
#[repr(C)]
struct GuardTable {
    base: ffi::sqlite3_vtab,
    shared: Rc<Shared>,
}

#[repr(C)]
struct GuardCursor {
    base: ffi::sqlite3_vtab_cursor,
}

/// A virtual-table module is read by SQLite for as long as the connection lives, so it is static.
struct Module(ffi::sqlite3_module);
// SAFETY: the module is a table of function pointers, never written.
unsafe impl Sync for Module {}

static MODULE: Module = Module(ffi::sqlite3_module {
    iVersion: 1,
    // No xCreate: the table is eponymous only, it never enters the schema.
    xCreate: None,
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect),
    xDestroy: Some(disconnect),
    xOpen: Some(open),
    xClose: Some(close),
    xFilter: Some(filter),
    xNext: Some(next),
    xEof: Some(eof),
    xColumn: Some(column),
    xRowid: Some(rowid),
    xUpdate: None,
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: None,
    xRename: None,
    xSavepoint: None,
    xRelease: None,
    xRollbackTo: None,
    xShadowName: None,
    xIntegrity: None,
});

/// Registers the guard on the connection. Once per connection: registering the name again destroys the first guard.
pub fn register(shared: &Rc<Shared>) -> Result<(), SqlError> {
    let (api, db) = (&shared.api, shared.db);
    let name = format!("{}\0", name());
    let aux = Box::into_raw(Box::new(Rc::clone(shared))).cast::<c_void>();
    // SAFETY: the handle is live and on this thread; `aux` is released by `destroy_module`, which SQLite calls even
    // when the registration fails.
    unsafe {
        let code = (api.create_module_v2)(
            db,
            name.as_ptr().cast(),
            &raw const MODULE.0,
            aux,
            Some(destroy_module),
        );
        if code == ffi::SQLITE_OK {
            Ok(())
        } else {
            Err(last_error(api, db))
        }
    }
}

/// Connects the guard by reading it once, so that a later close disconnects it.
pub fn touch(shared: &Shared) -> Result<(), SqlError> {
    let (api, db) = (&shared.api, shared.db);
    // SAFETY: the handle is live and on this thread; the statement is finalized before anything else happens.
    unsafe {
        let statement = Statement::prepare(api, db, &format!("SELECT * FROM {}", name()), false)?;
        let outcome = statement.step(api, db);
        statement.finalize(api);
        outcome.map(|_| ())
    }
}

/// A panic must not unwind into SQLite.
fn shielded(run: impl FnOnce() -> c_int) -> c_int {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(ffi::SQLITE_ERROR)
}

unsafe extern "C" fn connect(
    db: *mut Db,
    aux: *mut c_void,
    _argc: c_int,
    _argv: *const *const c_char,
    table: *mut *mut ffi::sqlite3_vtab,
    _message: *mut *mut c_char,
) -> c_int {
    shielded(|| {
        // SAFETY: `aux` is the box that `register` passed, alive until `destroy_module`.
        let shared = unsafe { &*aux.cast::<Rc<Shared>>() };
        // SAFETY: SQLite calls this with its own live handle and a place for the table.
        unsafe {
            let code = (shared.api.declare_vtab)(db, c"CREATE TABLE x(guard)".as_ptr());
            if code != ffi::SQLITE_OK {
                return code;
            }
            let guard = Box::new(GuardTable {
                base: std::mem::zeroed(),
                shared: Rc::clone(shared),
            });
            *table = Box::into_raw(guard).cast();
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn disconnect(table: *mut ffi::sqlite3_vtab) -> c_int {
    shielded(|| {
        // SAFETY: made by `connect`; SQLite drops its pointer after this call.
        let guard = unsafe { Box::from_raw(table.cast::<GuardTable>()) };
        if !guard.shared.loses_guard_while_preparing() {
            guard.shared.release();
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn destroy_module(aux: *mut c_void) {
    shielded(|| {
        // SAFETY: the box that `register` passed; SQLite calls this exactly once.
        let shared = unsafe { Box::from_raw(aux.cast::<Rc<Shared>>()) };
        shared.release();
        ffi::SQLITE_OK
    });
}

unsafe extern "C" fn best_index(
    _table: *mut ffi::sqlite3_vtab,
    _info: *mut ffi::sqlite3_index_info,
) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn open(
    _table: *mut ffi::sqlite3_vtab,
    cursor: *mut *mut ffi::sqlite3_vtab_cursor,
) -> c_int {
    shielded(|| {
        // SAFETY: SQLite passes a place for the cursor and frees it through `close`.
        unsafe {
            *cursor = Box::into_raw(Box::new(GuardCursor {
                base: std::mem::zeroed(),
            }))
            .cast();
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: made by `open`, closed once.
    drop(unsafe { Box::from_raw(cursor.cast::<GuardCursor>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn filter(
    _cursor: *mut ffi::sqlite3_vtab_cursor,
    _index: c_int,
    _text: *const c_char,
    _argc: c_int,
    _argv: *mut *mut ffi::sqlite3_value,
) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn next(_cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    ffi::SQLITE_OK
}

/// The guard has no rows.
unsafe extern "C" fn eof(_cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    1
}

unsafe extern "C" fn column(
    _cursor: *mut ffi::sqlite3_vtab_cursor,
    _context: *mut ffi::sqlite3_context,
    _index: c_int,
) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn rowid(_cursor: *mut ffi::sqlite3_vtab_cursor, rowid: *mut i64) -> c_int {
    // SAFETY: SQLite passes a place for the number.
    unsafe { *rowid = 0 };
    ffi::SQLITE_OK
}
