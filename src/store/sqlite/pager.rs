//! What lies behind the name `main` of a connection: its file, as SQLite itself names it. `deserialize` puts another one
//! there, and statements that were prepared before it then use memory that was freed. Owns the question; it runs no SQL.

use std::ffi::{CStr, c_int, c_void};

use libsqlite3_sys as ffi;

use super::connection::Conn;

/// What tells one pager, and one state of it, from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pager {
    pub file: usize,
    /// Null for a private database in memory.
    methods: usize,
    /// The WAL file while the pager has it open, the rollback journal otherwise.
    pub journal: usize,
}

impl Pager {
    /// Whether the database is an image in memory, as `deserialize` makes them: of SQLite's own kinds of files only this
    /// one knows no sector size. One image can be swapped for another without any sign: addresses come again.
    #[must_use]
    pub fn is_image(self) -> bool {
        is_image(self.methods)
    }
}

fn is_image(methods: usize) -> bool {
    let methods = methods as *const ffi::sqlite3_io_methods;
    // SAFETY: SQLite named the methods of its open file; they are static.
    !methods.is_null() && unsafe { (*methods).xSectorSize.is_none() }
}

/// The file behind `main` and its methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MainFile {
    file: usize,
    methods: usize,
}

impl MainFile {
    #[must_use]
    pub fn is_image(self) -> bool {
        is_image(self.methods)
    }
}

impl Conn {
    /// Asks SQLite about a database, without a name the main one (which saves looking the name up); `None` when it does not
    /// know. The connection is open.
    pub(super) fn file_control<T: Default>(
        &self,
        database: Option<&CStr>,
        operation: c_int,
    ) -> Option<T> {
        let shared = self.shared();
        let mut value = T::default();
        // SAFETY: the handle is live; each operation used here writes one value of the type it is asked with.
        let code = unsafe {
            (shared.api.file_control)(
                shared.db,
                database.map_or(std::ptr::null(), CStr::as_ptr),
                operation,
                (&raw mut value).cast::<c_void>(),
            )
        };
        (code == ffi::SQLITE_OK).then_some(value)
    }

    pub(super) fn main_file(&self) -> Option<MainFile> {
        let file: usize = self.file_control(None, ffi::SQLITE_FCNTL_FILE_POINTER)?;
        if file == 0 {
            return None;
        }
        // SAFETY: SQLite just named its open file, whose first member is the pointer to its methods.
        let methods = unsafe { (*(file as *const ffi::sqlite3_file)).pMethods } as usize;
        Some(MainFile { file, methods })
    }

    pub(super) fn pager(&self) -> Option<Pager> {
        let MainFile { file, methods } = self.main_file()?;
        let journal = self.file_control(None, ffi::SQLITE_FCNTL_JOURNAL_POINTER)?;
        Some(Pager {
            file,
            methods,
            journal,
        })
    }
}
