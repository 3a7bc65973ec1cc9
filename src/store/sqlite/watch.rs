//! Has anything changed since I last looked? The freshness rule behind answers from memory.
//!
//! A gate must answer what SQL would answer now, after writes by the host's own SQL and by other processes. Counting rows
//! on each check costs microseconds to milliseconds; comparing a stamp costs nanoseconds. The rule:
//!
//! - Inside a transaction or in the middle of a statement nothing can be said: the caller runs SQL.
//! - A *stamp* that is equal to the last one means that nothing was committed. It holds the pager (file pointer and its
//!   methods: `deserialize` swaps them), `SQLITE_FCNTL_DATA_VERSION` of `main` and `temp`, and what tells of commits by
//!   others: on WAL the 48-byte header of the WAL index, read in place; elsewhere `PRAGMA data_version`.
//! - A stamp that differs is *explained* where that is possible: no commit by another connection (`PRAGMA data_version`),
//!   no change of schema (`PRAGMA schema_version`), and as many rows changed (`sqlite3_total_changes`) as the update hook
//!   reported, by table. Then only the tables that the hook named have changed. A truncating DELETE or a WITHOUT ROWID table
//!   shows as a difference between the two counts: everything counts as changed then. A statement that fails reports rows
//!   that are not counted, which could make up for truncated ones: a table that became empty counts as changed. So does
//!   everything when the hook was taken over by somebody, or something was committed and no row was reported.
//! - A database that `deserialize` filled can be swapped for another one without any sign: nothing is said of it.
//!
//! None of these signals is enough alone: `total_changes` misses DDL, the hook misses truncation, `PRAGMA data_version`
//! misses own commits. This file owns the signals; what is remembered is not its business.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::rc::Rc;

use libsqlite3_sys as ffi;

use super::connection::{Conn, Shared};
use super::pager::Pager;

/// The tables that are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    Usage,
    Cooldowns,
    Keys,
    Consumption,
    Pools,
    PoolConnections,
    Allocations,
    Plans,
    ModelCaps,
}

impl Watched {
    pub const ALL: [Self; 9] = [
        Self::Usage,
        Self::Cooldowns,
        Self::Keys,
        Self::Consumption,
        Self::Pools,
        Self::PoolConnections,
        Self::Allocations,
        Self::Plans,
        Self::ModelCaps,
    ];

    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Usage => "rate_limit_usage",
            Self::Cooldowns => "rate_limit_cooldowns",
            Self::Keys => "api_keys",
            Self::Consumption => "quota_consumption",
            Self::Pools => "quota_pools",
            Self::PoolConnections => "quota_pool_connections",
            Self::Allocations => "quota_allocations",
            Self::Plans => "provider_plans",
            Self::ModelCaps => "quota_allocation_model_caps",
        }
    }
}

/// A value per table.
pub type PerTable<T> = [T; Watched::ALL.len()];

/// Why something that was remembered has to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cause {
    /// The host's own statements on this connection changed rows of the table.
    Rows,
    /// Another connection committed.
    #[default]
    Others,
    /// The schema changed, or another file or image took the database's place.
    Schema,
    /// Rows changed without a report: a truncating DELETE, a table without row ids, a hook that somebody took.
    Uncounted,
}

impl Cause {
    pub const ALL: [Self; 4] = [Self::Rows, Self::Others, Self::Schema, Self::Uncounted];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "host_rows",
            Self::Others => "other_connection",
            Self::Schema => "schema",
            Self::Uncounted => "uncounted",
        }
    }
}

/// What was known at one moment: equal for a table = that table has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epochs {
    /// Counts changes that nothing explains.
    pub unexplained: u64,
    /// Counts changes after which a name may mean another table.
    pub schema: u64,
    /// Why the last of the unexplained changes was one.
    cause: Cause,
    /// Rows that this connection changed, per table.
    rows: PerTable<u64>,
}

impl Epochs {
    /// Why a table is not as it was.
    #[must_use]
    pub fn cause_since(&self, earlier: &Self) -> Cause {
        if self.unexplained == earlier.unexplained {
            Cause::Rows
        } else {
            self.cause
        }
    }

    #[must_use]
    pub fn rows(&self, table: Watched) -> u64 {
        self.rows[table as usize]
    }

    /// Whether the table is as it was.
    #[must_use]
    pub fn same(&self, table: Watched, other: &Self) -> bool {
        self.unexplained == other.unexplained && self.rows(table) == other.rows(table)
    }
}

/// Stands still as long as the epochs do, and is cheaper to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    explained: u64,
    hooked: u64,
}

/// Bytes of the WAL-index header that are compared, as words.
const WAL_WORDS: usize = 6;
/// The format of the WAL index that is understood.
const WAL_VERSION: u32 = 3_007_000;
/// Where the header counts commits: its third 32-bit word.
const WAL_CHANGE_WORD: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    pager: Pager,
    main: u32,
    temp: u32,
    /// The WAL-index header, or `PRAGMA data_version` in its first word.
    others: [u64; WAL_WORDS],
}

/// The signals that cost a statement, taken when a stamp has to be explained.
#[derive(Clone, Copy)]
struct Baseline {
    stamp: Stamp,
    data_version: i64,
    schema_version: i64,
    /// Of the temp database; 0 as long as nothing was made there.
    temp_schema: i64,
    total_changes: c_int,
    hooked: u64,
    rows: PerTable<u64>,
    /// Tables that were seen to be empty.
    empty: PerTable<bool>,
}

/// How commits by others are seen.
#[derive(Clone, Copy)]
enum Others {
    /// A private database has none.
    Nobody,
    /// The WAL-index header in shared memory, while the pager's journal is this WAL file.
    Wal { journal: usize },
    /// `PRAGMA data_version`.
    Pragma,
}

/// Counters that the update hook writes.
#[derive(Default)]
pub struct HookCounts {
    total: Cell<u64>,
    rows: PerTable<Cell<u64>>,
}

/// The watch over one connection.
#[derive(Default)]
pub struct Watch {
    counts: Rc<HookCounts>,
    /// The hook was set at least once.
    hooked: Cell<bool>,
    baseline: RefCell<Option<Baseline>>,
    /// Counts baselines.
    explained: Cell<u64>,
    others: Cell<Option<Others>>,
    unexplained: Cell<u64>,
    schema: Cell<u64>,
    /// The tables that somebody remembers and that are there.
    followed: Cell<PerTable<bool>>,
    cause: Cell<Cause>,
}

impl Watch {
    fn rows(&self) -> PerTable<u64> {
        std::array::from_fn(|table| self.counts.rows[table].get())
    }

    fn mark(&self) -> Mark {
        Mark {
            explained: self.explained.get(),
            hooked: self.counts.total.get(),
        }
    }

    fn baseline(&self) -> Option<Baseline> {
        *self.baseline.borrow()
    }

    fn set_baseline(&self, baseline: Baseline) {
        self.baseline.replace(Some(baseline));
        self.explained.set(self.explained.get() + 1);
    }

    fn epochs(&self) -> Epochs {
        Epochs {
            unexplained: self.unexplained.get(),
            schema: self.schema.get(),
            cause: self.cause.get(),
            rows: self.rows(),
        }
    }

    /// Removes the hook; before the connection goes.
    pub(super) fn stop(&self, shared: &Shared) {
        if self.hooked.replace(false) {
            // SAFETY: the handle is live and on this thread.
            unsafe { (shared.api.update_hook)(shared.db, None, std::ptr::null_mut()) };
        }
    }

    /// Sets the hook; whether it was still ours. A connection has one: a second copy of this addon takes it too.
    fn hook(&self, shared: &Shared) -> bool {
        let counts = Rc::as_ptr(&self.counts).cast_mut().cast::<c_void>();
        self.hooked.set(true);
        // SAFETY: the handle is live; the counters live as long as `Shared`, which removes the hook before it goes.
        let before = unsafe { (shared.api.update_hook)(shared.db, Some(count_row), counts) };
        before == counts
    }
}

/// Called by SQLite for each changed row of an ordinary table. It must not use the connection.
unsafe extern "C" fn count_row(
    counts: *mut c_void,
    _operation: c_int,
    database: *const c_char,
    table: *const c_char,
    _rowid: i64,
) {
    // SAFETY: the pointer that `start` passed, and names that SQLite owns for the length of the call.
    let (counts, database, table) = unsafe {
        (
            &*counts.cast::<HookCounts>(),
            CStr::from_ptr(database),
            CStr::from_ptr(table),
        )
    };
    counts.total.set(counts.total.get() + 1);
    if database != c"main" {
        return;
    }
    let name = table.to_bytes();
    // Names keep the spelling of their CREATE TABLE.
    if let Some(watched) = Watched::ALL
        .into_iter()
        .find(|watched| watched.table().as_bytes().eq_ignore_ascii_case(name))
    {
        let rows = &counts.rows[watched as usize];
        rows.set(rows.get() + 1);
    }
}

impl Conn {
    /// What is known now; `None` inside a transaction or statement, or when it cannot be told.
    #[must_use]
    pub fn epochs(&self) -> Option<Epochs> {
        self.mark()?;
        Some(self.shared().watch.epochs())
    }

    /// What was known at the last mark.
    pub(super) fn known_epochs(&self) -> Epochs {
        self.shared().watch.epochs()
    }

    /// The same as a mark: equal to an earlier one = nothing has changed since.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        let watch = &self.shared().watch;
        if !self.is_quiet() {
            return None;
        }
        if let Some(others) = watch.others.get() {
            let stamp = self.take_stamp(others)?;
            let baseline = watch.baseline.borrow();
            if baseline
                .as_ref()
                .is_some_and(|baseline| baseline.stamp == stamp)
            {
                return Some(watch.mark());
            }
        }
        self.explain()?;
        Some(watch.mark())
    }

    /// What is known after this connection changed `rows` rows in one commit. Cheaper than [`Conn::epochs`]: where commits
    /// are counted (on WAL in the header, elsewhere by the pager), one commit more can only be that one.
    #[must_use]
    pub fn epochs_after_own_rows(&self, rows: u64) -> Option<Epochs> {
        let shared = self.shared();
        let watch = &shared.watch;
        let (Some(mut baseline), Some(others)) = (watch.baseline(), watch.others.get()) else {
            return self.epochs();
        };
        if !self.is_quiet() {
            return None;
        }
        let stamp = self.take_stamp(others)?;
        let hooked = watch.counts.total.get();
        // SAFETY: the handle is live and on this thread.
        let total_changes = unsafe { (shared.api.total_changes)(shared.db) };
        let changed = total_changes.wrapping_sub(baseline.total_changes);
        let commits = if matches!(others, Others::Wal { .. }) {
            change_counter(&stamp).wrapping_sub(change_counter(&baseline.stamp))
        } else if stamp.others == baseline.stamp.others {
            stamp.main.wrapping_sub(baseline.stamp.main)
        } else {
            return self.epochs();
        };
        let only_this = commits == 1
            && rows > 0
            && hooked - baseline.hooked == rows
            && u64::from(changed.cast_unsigned()) == rows
            && stamp.pager == baseline.stamp.pager
            && stamp.temp == baseline.stamp.temp;
        if !only_this {
            return self.epochs();
        }
        baseline.stamp = stamp;
        baseline.hooked = hooked;
        baseline.total_changes = total_changes;
        let rows = watch.rows();
        for (table, empty) in baseline.empty.iter_mut().enumerate() {
            *empty &= rows[table] == baseline.rows[table];
        }
        baseline.rows = rows;
        watch.set_baseline(baseline);
        Some(watch.epochs())
    }

    /// Neither in a transaction nor in the middle of a statement.
    fn is_quiet(&self) -> bool {
        let shared = self.shared();
        // SAFETY: checked open; the handle is live and on this thread.
        self.is_open()
            && unsafe {
                (shared.api.get_autocommit)(shared.db) != 0
                    && (shared.api.txn_state)(shared.db, c"main".as_ptr()) == ffi::SQLITE_TXN_NONE
            }
    }

    /// Takes every signal anew and tells what changed since the last time.
    fn explain(&self) -> Option<()> {
        let shared = self.shared();
        let watch = &shared.watch;
        if self.pager()?.is_image() {
            return None;
        }
        let undisturbed = watch.hook(shared);
        let mut fresh = self.baseline()?;
        let same_schema = watch.baseline().filter(|last| {
            last.stamp.pager == fresh.stamp.pager
                && last.schema_version == fresh.schema_version
                && last.temp_schema == fresh.temp_schema
        });
        if same_schema.is_none() {
            watch.schema.set(watch.schema.get() + 1);
        }
        // An empty BEGIN IMMEDIATE of the host moves the pagers, but not the header of a WAL.
        let is_wal = matches!(watch.others.get(), Some(Others::Wal { .. }));
        let last = same_schema.filter(|last| {
            let reported = fresh.hooked - last.hooked;
            let changed = fresh.total_changes.wrapping_sub(last.total_changes);
            undisturbed
                && last.data_version == fresh.data_version
                && (reported > 0 || (is_wal && last.stamp.others == fresh.stamp.others))
                && reported == u64::from(changed.cast_unsigned())
        });
        if let Some(last) = last {
            self.note_emptied(&last, &mut fresh);
        } else {
            watch.unexplained.set(watch.unexplained.get() + 1);
            watch.cause.set(match same_schema {
                None => Cause::Schema,
                Some(last) if last.data_version != fresh.data_version => Cause::Others,
                Some(_) => Cause::Uncounted,
            });
        }
        watch.set_baseline(fresh);
        Some(())
    }

    /// Counts a table as changed that became empty although no row of it was reported.
    fn note_emptied(&self, last: &Baseline, fresh: &mut Baseline) {
        let followed = self.shared().watch.followed.get();
        for table in Watched::ALL {
            let place = table as usize;
            if !followed[place] || fresh.rows[place] != last.rows[place] {
                continue;
            }
            // Without a report nothing came in either.
            fresh.empty[place] = last.empty[place] || self.has_no_row(table);
            if fresh.empty[place] && !last.empty[place] {
                let rows = &self.shared().watch.counts.rows[place];
                rows.set(rows.get() + 1);
                fresh.rows[place] = rows.get();
            }
        }
    }

    /// Says that somebody remembers a table, or that the name no longer means one.
    pub(super) fn set_followed(&self, table: Watched, followed: bool) {
        let watch = &self.shared().watch;
        let mut tables = watch.followed.get();
        tables[table as usize] = followed;
        watch.followed.set(tables);
    }

    /// Whether the table is there and empty.
    fn has_no_row(&self, table: Watched) -> bool {
        let sql = match table {
            Watched::Usage => "SELECT 1 FROM main.rate_limit_usage LIMIT 1",
            Watched::Cooldowns => "SELECT 1 FROM main.rate_limit_cooldowns LIMIT 1",
            Watched::Keys => "SELECT 1 FROM main.api_keys LIMIT 1",
            Watched::Consumption => "SELECT 1 FROM main.quota_consumption LIMIT 1",
            Watched::Pools => "SELECT 1 FROM main.quota_pools LIMIT 1",
            Watched::PoolConnections => "SELECT 1 FROM main.quota_pool_connections LIMIT 1",
            Watched::Allocations => "SELECT 1 FROM main.quota_allocations LIMIT 1",
            Watched::Plans => "SELECT 1 FROM main.provider_plans LIMIT 1",
            Watched::ModelCaps => "SELECT 1 FROM main.quota_allocation_model_caps LIMIT 1",
        };
        self.query_row(sql, &[], |_| ())
            .is_ok_and(|row| row.is_none())
    }

    /// Every signal, taken so that no commit lies between them.
    fn baseline(&self) -> Option<Baseline> {
        const TRIES: usize = 3;
        let shared = self.shared();
        for _ in 0..TRIES {
            let others = self.others()?;
            let before = self.take_stamp(others)?;
            let data_version = self.pragma("PRAGMA main.data_version")?;
            let schema_version = self.pragma("PRAGMA main.schema_version")?;
            // Asking would open it.
            let temp_schema = if self.has_temp() {
                self.pragma("PRAGMA temp.schema_version")?
            } else {
                0
            };
            // SAFETY: the handle is live and on this thread.
            let total_changes = unsafe { (shared.api.total_changes)(shared.db) };
            let hooked = shared.watch.counts.total.get();
            let rows = shared.watch.rows();
            if self.take_stamp(others)? == before {
                shared.watch.others.set(Some(others));
                return Some(Baseline {
                    stamp: before,
                    data_version,
                    schema_version,
                    temp_schema,
                    total_changes,
                    hooked,
                    rows,
                    empty: PerTable::default(),
                });
            }
        }
        None
    }

    fn pragma(&self, sql: &'static str) -> Option<i64> {
        self.query_row(sql, &[], |row| row.int(0))
            .ok()
            .flatten()
            .flatten()
    }

    /// How commits by others are seen: found out again when the pager changed.
    fn others(&self) -> Option<Others> {
        let watch = &self.shared().watch;
        let pager = self.pager()?;
        if let (Some(last), Some(others)) = (watch.baseline(), watch.others.get())
            && last.stamp.pager == pager
        {
            return Some(others);
        }
        if self.is_private() {
            return Some(Others::Nobody);
        }
        // Opens the WAL where there is one.
        self.pragma("PRAGMA main.data_version")?;
        let says = |sql, expected: &str| {
            let said = self.query_row(sql, &[], |row| {
                row.text(0)
                    .is_some_and(|text| text.eq_ignore_ascii_case(expected))
            });
            said.ok().flatten().unwrap_or(false)
        };
        // In exclusive mode the WAL index may be on the heap: asking for shared memory would create a stray file.
        let shared_wal =
            says("PRAGMA main.journal_mode", "wal") && says("PRAGMA main.locking_mode", "normal");
        let pager = self.pager()?;
        // SAFETY: both modes were just asked for.
        let readable = shared_wal && unsafe { wal_header(pager.file) }.is_some();
        Some(if readable {
            Others::Wal {
                journal: pager.journal,
            }
        } else {
            Others::Pragma
        })
    }

    fn take_stamp(&self, others: Others) -> Option<Stamp> {
        let pager = self.pager()?;
        let main = self.data_version(None)?;
        // No temporary table was ever made: there is nothing to have changed.
        let temp = self.data_version(Some(c"temp")).unwrap_or(0);
        let others = match others {
            Others::Nobody => [0; WAL_WORDS],
            // SAFETY: the pager's journal is the WAL that was found when `others` was.
            Others::Wal { journal } if journal == pager.journal => unsafe {
                wal_header(pager.file)?
            },
            // The WAL was left: differs from every header.
            Others::Wal { .. } => [u64::MAX; WAL_WORDS],
            Others::Pragma => {
                let mut words = [0; WAL_WORDS];
                words[0] = self.pragma("PRAGMA main.data_version")?.cast_unsigned();
                // The step may have been what noticed the change.
                return Some(Stamp {
                    pager,
                    main: self.data_version(None)?,
                    temp,
                    others: words,
                });
            }
        };
        Some(Stamp {
            pager,
            main,
            temp,
            others,
        })
    }

    fn data_version(&self, database: Option<&CStr>) -> Option<u32> {
        self.file_control(database, ffi::SQLITE_FCNTL_DATA_VERSION)
    }

    /// Whether the temp database was opened.
    pub(super) fn has_temp(&self) -> bool {
        self.data_version(Some(c"temp")).is_some()
    }
}

/// The WAL-index header.
///
/// # Safety
/// `file` is the open file of a pager that has a WAL open in normal locking mode: SQLite then has its shared memory mapped,
/// and asking for the first region maps nothing new and creates no file.
unsafe fn wal_header(file: usize) -> Option<[u64; WAL_WORDS]> {
    const REGION_SIZE: c_int = 32_768;
    const FIRST_WITH_SHARED_MEMORY: c_int = 2;
    let file = file as *mut ffi::sqlite3_file;
    if file.is_null() {
        return None;
    }
    // SAFETY: the file is open, and its methods live as long; `xShmMap` exists from version 2 on. The region is mapped
    // for as long as the WAL is open, which is the caller's premise, and holds at least the header. It may be written
    // by another process meanwhile: volatile reads, and a torn header merely differs.
    unsafe {
        let methods = (*file).pMethods;
        if methods.is_null() || (*methods).iVersion < FIRST_WITH_SHARED_MEMORY {
            return None;
        }
        let mut region: *mut c_void = std::ptr::null_mut();
        if (*methods).xShmMap?(file, 0, REGION_SIZE, 0, &raw mut region) != ffi::SQLITE_OK
            || region.is_null()
        {
            return None;
        }
        let words = region.cast::<u64>();
        let header: [u64; WAL_WORDS] = std::array::from_fn(|word| words.add(word).read_volatile());
        (first_half(header[0]) == WAL_VERSION).then_some(header)
    }
}

/// The 32-bit word that lies first in memory.
fn first_half(word: u64) -> u32 {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Commits so far, as the header counts them.
fn change_counter(stamp: &Stamp) -> u32 {
    first_half(stamp.others[WAL_CHANGE_WORD])
}
