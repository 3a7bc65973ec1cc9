//! A connection that the engine runs its statements on: the host's, or one of our own.
//!
//! A handle belongs to one thread (better-sqlite3 is built without a connection mutex), which `Rc` enforces. After the
//! guard has seen the host close it, nothing here touches the handle again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use libsqlite3_sys as ffi;
use rustc_hash::FxHashMap;

use super::api::{Api, ApiError, Db};
use super::error::SqlError;
use super::files::{self, FileClaim, FileId};
use super::guard;
use super::pager::MainFile;
use super::statement::{Param, Row, Statement};
use super::watch::Watch;

/// Why a connection cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// `loadExtension` loaded some other file than this one.
    #[error(
        "the connection loaded another copy of this addon: pass the path of the copy that this module loaded"
    )]
    OtherCopy,
    #[error("{0}")]
    Unsupported(#[from] ApiError),
    #[error(
        "this process already has the file open through another copy of SQLite, and two copies lose each other's \
         commits: pass the connection that has it open instead of opening the file again"
    )]
    FileInUse,
    #[error("the connection refused the engine's guard table: {0}")]
    Refused(SqlError),
    #[error("the database file cannot be opened: {0}")]
    Open(String),
}

/// What all users of one handle share.
pub struct Shared {
    pub(super) db: *mut Db,
    pub(super) api: Api,
    open: Cell<bool>,
    guarded: Cell<bool>,
    /// A statement of ours is being prepared.
    preparing: Cell<bool>,
    statements: RefCell<FxHashMap<(usize, usize), Statement>>,
    /// What was behind `main` when they were prepared.
    file: Cell<Option<MainFile>>,
    claim: RefCell<Option<FileClaim>>,
    own: RefCell<Option<rusqlite::Connection>>,
    pub(super) watch: Watch,
}

impl Shared {
    fn new(db: *mut Db, api: Api, own: Option<rusqlite::Connection>) -> Rc<Self> {
        Rc::new(Self {
            db,
            api,
            open: Cell::new(true),
            guarded: Cell::new(false),
            preparing: Cell::new(false),
            statements: RefCell::default(),
            file: Cell::new(None),
            claim: RefCell::new(None),
            own: RefCell::new(own),
            watch: Watch::default(),
        })
    }

    /// Whether the guard was disconnected by a statement of ours that is being prepared: SQLite then lets go of a schema
    /// that `deserialize` replaced, and no host closes from there. The guard is to be connected again.
    pub(super) fn loses_guard_while_preparing(&self) -> bool {
        let lost = self.preparing.get();
        if lost {
            self.guarded.set(false);
        }
        lost
    }

    fn prepare(&self, sql: &str, keep: bool) -> Result<Statement, SqlError> {
        let guarded = self.guarded.get();
        self.preparing.set(true);
        // SAFETY: the caller checked that the handle is live; it is on this thread.
        let statement = unsafe { Statement::prepare(&self.api, self.db, sql, keep) };
        self.preparing.set(false);
        if guarded && !self.guarded.get() {
            if let Err(error) = guard::touch(self) {
                if let Ok(statement) = statement {
                    // SAFETY: as above.
                    unsafe { statement.finalize(&self.api) };
                }
                return Err(error);
            }
            self.guarded.set(true);
        }
        statement
    }

    /// Call while the handle is live: SQLite disconnects virtual tables, and so tells us, before it frees anything.
    fn finalize_statements(&self) {
        let statements = std::mem::take(&mut *self.statements.borrow_mut());
        for statement in statements.into_values() {
            // SAFETY: see above.
            unsafe { statement.finalize(&self.api) };
        }
    }

    /// Lets go of the handle: statements are finalized, and it is never touched again. Called by the guard when the
    /// host closes, and by ourselves for a connection of our own.
    pub(super) fn release(&self) {
        if !self.open.replace(false) {
            return;
        }
        self.watch.stop(self);
        self.finalize_statements();
        self.claim.replace(None);
        let _ = REGISTRY.try_with(|registry| registry.borrow_mut().remove(&self.db));
        drop(self.own.take());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A host connection is kept by its guard until it closes, so only own files still come here open.
        self.release();
    }
}

thread_local! {
    /// The handle that `loadExtension` just passed to the entry point.
    static LOADED: Cell<Option<(*mut Db, *const c_void)>> = const { Cell::new(None) };
    /// Connections of this thread that carry a guard, so that attaching twice finds the first.
    static REGISTRY: RefCell<HashMap<*mut Db, Weak<Shared>>> = RefCell::default();
}

/// The entry point that SQLite calls when a host loads this file as an extension.
///
/// # Safety
/// Called by SQLite with a live handle and its function table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut Db,
    _message: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // The library stays loaded with Node.js: SQLite must not unload it when the connection closes.
    LOADED
        .try_with(|loaded| loaded.set(Some((db, table))))
        .map_or(ffi::SQLITE_ERROR, |()| ffi::SQLITE_OK_LOAD_PERMANENTLY)
}

/// A cheap handle on a connection. Single-threaded.
#[derive(Clone)]
pub struct Conn(Rc<Shared>);

impl Conn {
    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Forgets a handle that an earlier load left behind: it may be closed by now. Call before `loadExtension`.
    pub fn expect_load() {
        LOADED.set(None);
    }

    /// Takes the connection that just loaded this file. The same connection twice gives the same handle.
    pub fn adopt() -> Result<Self, AttachError> {
        let (db, table) = LOADED.take().ok_or(AttachError::OtherCopy)?;
        let known = REGISTRY.with_borrow(|registry| registry.get(&db).and_then(Weak::upgrade));
        let shared = if let Some(shared) = known {
            shared
        } else {
            // SAFETY: SQLite passed the table with the handle in the same call.
            let api = unsafe { Api::from_table(table)? };
            let shared = Shared::new(db, api, None);
            guard::register(&shared).map_err(AttachError::Refused)?;
            REGISTRY.with_borrow_mut(|registry| registry.insert(db, Rc::downgrade(&shared)));
            shared
        };
        if shared.claim.borrow().is_none()
            && let Some(file) = Self(Rc::clone(&shared)).file_id()
        {
            let claim =
                FileClaim::take(file, shared.api.identity()).ok_or(AttachError::FileInUse)?;
            shared.claim.replace(Some(claim));
        }
        if !shared.guarded.get() {
            guard::touch(&shared).map_err(AttachError::Refused)?;
            shared.guarded.set(true);
        }
        Ok(Self(shared))
    }

    /// Opens a file of our own through the bundled SQLite: WAL, 5 s busy timeout, foreign keys on.
    pub fn open(path: &Path) -> Result<Self, AttachError> {
        let bundled = Api::bundled();
        if let Some(file) = FileId::of(path) {
            let holder = files::held_by(&file);
            let foreign = holder.is_some_and(|api| api != bundled.identity());
            if foreign || (holder.is_none() && files::open_in_this_process(&file)) {
                return Err(AttachError::FileInUse);
            }
        }
        let connection = rusqlite::Connection::open(literal(path))
            .map_err(|error| AttachError::Open(error.to_string()))?;
        let conn = Self::own(connection)?;
        if let Some(file) = FileId::of(path) {
            let claim = FileClaim::take(file, bundled.identity()).ok_or(AttachError::FileInUse)?;
            conn.0.claim.replace(Some(claim));
        }
        Ok(conn)
    }

    /// A private database in memory.
    pub fn open_memory() -> Result<Self, AttachError> {
        rusqlite::Connection::open_in_memory()
            .map_err(|error| AttachError::Open(error.to_string()))
            .and_then(Self::own)
    }

    fn own(connection: rusqlite::Connection) -> Result<Self, AttachError> {
        let failed = |error: rusqlite::Error| AttachError::Open(error.to_string());
        connection
            .busy_timeout(Duration::from_secs(5))
            .map_err(failed)?;
        // A read-only file cannot change its journal mode: it is used as it is.
        let _ = connection.pragma_update(None, "journal_mode", "WAL");
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(failed)?;
        // SAFETY: the handle lives as long as `connection`, which `Shared` keeps until it lets go of the handle.
        let db = unsafe { connection.handle() };
        Ok(Self(Shared::new(db, Api::bundled(), Some(connection))))
    }

    /// Closes a connection of our own, or lets go of nothing else: a host closes its own handle.
    pub fn close_own(&self) {
        if self.0.own.borrow().is_some() {
            self.0.release();
        }
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.open.get()
    }

    /// Whether two handles stand on the same connection.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// False inside a transaction of the host.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        // SAFETY: checked open, on its thread.
        self.is_open() && unsafe { (self.0.api.get_autocommit)(self.0.db) } != 0
    }

    /// Whether some database of the connection has uncommitted writes.
    fn is_writing(&self) -> bool {
        // SAFETY: checked open, on its thread; no name means all databases.
        self.is_open()
            && unsafe { (self.0.api.txn_state)(self.0.db, std::ptr::null()) }
                == ffi::SQLITE_TXN_WRITE
    }

    /// Whether no other connection can see the main database: in memory or temporary, without a name.
    pub(super) fn is_private(&self) -> bool {
        // SAFETY: the handle is live; the text is only looked at.
        unsafe {
            let name = (self.0.api.db_filename)(self.0.db, c"main".as_ptr());
            name.is_null() || *name == 0
        }
    }

    /// The file of the main database; `None` for a private or temporary one.
    fn file_id(&self) -> Option<FileId> {
        // SAFETY: the handle is live; the text stays valid while the database is attached, and is copied at once.
        let name = unsafe {
            let name = (self.0.api.db_filename)(self.0.db, c"main".as_ptr());
            if name.is_null() {
                return None;
            }
            CStr::from_ptr(name).to_str().ok()?.to_owned()
        };
        if name.is_empty() {
            None
        } else {
            FileId::of(Path::new(&name))
        }
    }

    /// Runs a statement and maps every row. The statement is kept prepared: its text is its identity.
    pub fn query<T>(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
        mut row: impl FnMut(&Row<'_>) -> T,
    ) -> Result<Vec<T>, SqlError> {
        let running = self.run(sql, params)?;
        let mut rows = Vec::new();
        while running.step()? {
            rows.push(row(&running.row()));
        }
        Ok(rows)
    }

    /// Runs a statement and maps its first row.
    pub fn query_row<T>(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
        row: impl FnOnce(&Row<'_>) -> T,
    ) -> Result<Option<T>, SqlError> {
        let running = self.run(sql, params)?;
        Ok(if running.step()? {
            Some(row(&running.row()))
        } else {
            None
        })
    }

    /// Runs a statement to its end; the number of rows it changed.
    pub fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, SqlError> {
        let running = self.run(sql, params)?;
        while running.step()? {}
        Ok(self.changes())
    }

    /// As [`Conn::execute`], for a text built at run time; nothing is kept prepared.
    pub fn execute_dynamic(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, SqlError> {
        let running = self.start(None, sql, params)?;
        while running.step()? {}
        Ok(self.changes())
    }

    fn changes(&self) -> u64 {
        // SAFETY: the caller just ran a statement on the live handle.
        u64::try_from(unsafe { (self.0.api.changes)(self.0.db) }).unwrap_or(0)
    }

    fn run(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Running<'_>, SqlError> {
        self.start(Some((sql.as_ptr() as usize, sql.len())), sql, params)
    }

    fn start(
        &self,
        key: Option<(usize, usize)>,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Running<'_>, SqlError> {
        if !self.is_open() {
            return Err(SqlError::closed());
        }
        let shared = &*self.0;
        let file = self.main_file();
        if shared.file.replace(file) != file {
            shared.finalize_statements();
        }
        // One image in memory cannot be told from the next: nothing that was prepared may outlive the call.
        let key = key.filter(|_| !file.is_some_and(MainFile::is_image));
        // Taken out while it runs: a function of the host that SQLite calls meanwhile may come back to this engine.
        let kept = key.and_then(|key| shared.statements.borrow_mut().remove(&key));
        let statement = match kept {
            Some(statement) => statement,
            None => shared.prepare(sql, key.is_some())?,
        };
        let running = Running {
            shared,
            key,
            statement: Some(statement),
        };
        if let Some(statement) = &running.statement {
            // SAFETY: the params outlive this call only if they outlive `running`'s steps: `params` is borrowed by the
            // callers above until they are done, and `Running` clears the bindings when dropped.
            unsafe { statement.bind(&shared.api, shared.db, params)? };
        }
        Ok(running)
    }

    /// Runs `work` as one unit: a transaction, or a savepoint inside the host's. An error undoes it.
    pub fn transaction<T, E: From<SqlError>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.unit("BEGIN IMMEDIATE", work)
    }

    /// The same for work whose first statement writes to `main` and so takes the lock itself. `BEGIN IMMEDIATE` also locks
    /// the temp database, whose version then moves at the commit as if its tables had changed: what is remembered of
    /// `main` would have to be read again.
    pub fn write_transaction<T, E: From<SqlError>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.unit("BEGIN", work)
    }

    /// The same for work whose parts may stand alone. Where a statement of the host is in the middle of its writes, no
    /// transaction can begin: the work is then part of what that statement does.
    pub fn write_together<T, E: From<SqlError>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.autocommit() && self.is_writing() {
            work(self)
        } else {
            self.write_transaction(work)
        }
    }

    fn unit<T, E: From<SqlError>>(
        &self,
        start: &'static str,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let nested = self.is_open() && !self.autocommit();
        if !nested && self.is_writing() {
            // A statement of the host is in the middle of its writes (a loop over `UPDATE … RETURNING`, a function that it
            // calls). What would begin here could not commit before it ends, and its undoing would undo the host's.
            return Err(SqlError {
                code: ffi::SQLITE_BUSY,
                message: "a statement of this connection is still writing".to_owned(),
            }
            .into());
        }
        let (begin, commit, undo): (_, _, &[&'static str]) = if nested {
            (
                "SAVEPOINT quota_core",
                "RELEASE quota_core",
                &["ROLLBACK TO quota_core", "RELEASE quota_core"],
            )
        } else {
            (start, "COMMIT", &["ROLLBACK"])
        };
        self.execute(begin, &[])?;
        let outcome = work(self).and_then(|value| {
            self.execute(commit, &[])?;
            Ok(value)
        });
        // Some errors (full disk, I/O) roll the whole transaction back by themselves.
        if outcome.is_err() && self.is_open() && !self.autocommit() {
            for statement in undo {
                let _ = self.execute(statement, &[]);
            }
        }
        outcome
    }
}

/// A path that SQLite takes as it is: `file:…` would be read as a URI, whose file is another one than the path names, and
/// none that can be checked for other users of it.
fn literal(path: &Path) -> std::borrow::Cow<'_, Path> {
    if path.as_os_str().as_encoded_bytes().starts_with(b"file:") {
        Path::new(".").join(path).into()
    } else {
        path.into()
    }
}

/// A statement between its first step and its reset.
struct Running<'c> {
    shared: &'c Shared,
    key: Option<(usize, usize)>,
    statement: Option<Statement>,
}

impl Running<'_> {
    fn step(&self) -> Result<bool, SqlError> {
        match &self.statement {
            // SAFETY: checked open when started; the host cannot close under a running statement of this thread but
            // from a function that the statement calls, which the check here catches.
            Some(statement) if self.shared.open.get() => unsafe {
                statement.step(&self.shared.api, self.shared.db)
            },
            _ => Err(SqlError::closed()),
        }
    }

    fn row(&self) -> Row<'_> {
        match &self.statement {
            Some(statement) => statement.row(&self.shared.api),
            None => unreachable!("a running statement has a statement until it is dropped"),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Some(statement) = self.statement.take() else {
            return;
        };
        // SAFETY: a handle with an unfinished statement is not freed, even where the host asked to close it.
        unsafe { statement.reset(&self.shared.api) };
        let displaced = match self.key {
            Some(key) if self.shared.open.get() => {
                self.shared.statements.borrow_mut().insert(key, statement)
            }
            _ => Some(statement),
        };
        if let Some(statement) = displaced {
            // SAFETY: as above.
            unsafe { statement.finalize(&self.shared.api) };
        }
    }
}
