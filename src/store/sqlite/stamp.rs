//! Whether the database is still what it was: a stamp that changes with every change, whoever made it. Owns the question;
//! what is kept in memory under a stamp is the caller's.
//!
//! The pager counts changes to its file, its own connection's and those of others, but it learns of others only when a
//! read begins: stepping `PRAGMA data_version` begins one. In WAL mode the head of the WAL index, which is mapped into
//! this process anyway, changes with every commit of anyone, and reading it costs no system call.

use std::ffi::{c_int, c_void};

use libsqlite3_sys as ffi;

use super::Conn;

/// A state of the main database as one connection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    version: u32,
    /// `deserialize` puts another file, with a count of its own, behind the same connection.
    file: usize,
    /// In WAL mode; `None` also where it could not be read.
    wal: Option<WalHead>,
}

/// What [`Conn::begin_change`] saw.
#[derive(Debug, Clone, Copy)]
pub struct BeforeChange {
    stamp: Stamp,
    total_changes: c_int,
}

/// One of the two copies of the header of a WAL index: 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WalHead([u32; 12]);

impl WalHead {
    /// The only format there has ever been; another one is left alone.
    const FORMAT: u32 = 3_007_000;

    /// Counts commits.
    fn commits(self) -> u32 {
        self.0[2]
    }
}

/// Size of one region of a WAL index, as SQLite asks for it.
const REGION: c_int = 32_768;

impl Conn {
    /// The stamp of what a statement would read now, `kept` itself while nothing changed. `None` inside a transaction or a
    /// running statement, whose changes no stamp tells apart, and where the file cannot be read.
    #[must_use]
    pub fn stamp(&self, kept: Option<Stamp>) -> Option<Stamp> {
        if !self.autocommit() || self.in_statement() {
            return None;
        }
        let (version, file) = self.version()?;
        if let Some(kept) = kept {
            // The version first: leaving WAL mode changes it, and then there is no index to look at.
            let same = kept.version == version && kept.file == file;
            if same && kept.wal.is_some() && wal_head(file) == kept.wal {
                return Some(kept);
            }
        }
        // A private database has no other writers to learn of.
        if !self.has_file() {
            return Some(Stamp {
                version,
                file,
                wal: None,
            });
        }
        self.query_row("PRAGMA data_version", &[], |_| ()).ok()??;
        let (version, file) = self.version()?;
        let same_file = kept.filter(|kept| kept.file == file);
        if let Some(kept) = same_file
            && kept.version == version
            && kept.wal.is_none()
        {
            return Some(kept);
        }
        // An index that was in shared memory stays there for as long as the mode is WAL.
        let was_shared = same_file.is_some_and(|kept| kept.wal.is_some());
        let shared = self.says("PRAGMA main.journal_mode", "wal")
            && (was_shared || self.says("PRAGMA main.locking_mode", "normal"));
        Some(Stamp {
            version,
            file,
            wal: shared.then(|| wal_head(file)).flatten(),
        })
    }

    /// Call before a change, with the stamp under which things are kept; `None` when they are out of date.
    #[must_use]
    pub fn begin_change(&self, kept: Option<Stamp>) -> Option<BeforeChange> {
        let stamp = self.stamp(kept).filter(|stamp| Some(*stamp) == kept)?;
        Some(BeforeChange {
            stamp,
            total_changes: self.total_changes(),
        })
    }

    /// The new stamp when exactly the announced change of `rows` rows, in one commit, happened since; `None` when there
    /// was more (another writer, a trigger) or less.
    #[must_use]
    pub fn end_change(&self, before: BeforeChange, rows: c_int) -> Option<Stamp> {
        if !self.autocommit() || self.in_statement() {
            return None;
        }
        let (version, file) = self.version()?;
        let one_commit =
            version == before.stamp.version.wrapping_add(1) && file == before.stamp.file;
        let expected = before.total_changes.wrapping_add(rows);
        if !one_commit || self.total_changes() != expected {
            return None;
        }
        let wal = match before.stamp.wal {
            None => None,
            // A commit of another that came right after ours is in the head already: it counts one more.
            Some(head) => {
                let now = wal_head(file)?;
                (now.commits() == head.commits().wrapping_add(1)).then_some(Some(now))?
            }
        };
        Some(Stamp { version, file, wal })
    }

    /// The pager's count of changes, and its file.
    fn version(&self) -> Option<(u32, usize)> {
        let mut version = 0_u32;
        let mut file = std::ptr::null_mut::<c_void>();
        self.control(ffi::SQLITE_FCNTL_DATA_VERSION, (&raw mut version).cast())?;
        self.control(ffi::SQLITE_FCNTL_FILE_POINTER, (&raw mut file).cast())?;
        Some((version, file as usize))
    }

    /// `out` must be what the operation writes to.
    fn control(&self, operation: c_int, out: *mut c_void) -> Option<()> {
        let shared = self.shared();
        if !self.is_open() {
            return None;
        }
        // SAFETY: the handle is open and on this thread; both operations used here write one value of the type that
        // `out` points to.
        let code =
            unsafe { (shared.api.file_control)(shared.db, c"main".as_ptr(), operation, out) };
        (code == ffi::SQLITE_OK).then_some(())
    }

    /// Whether a pragma that only reads has this value. Asked when something changed: with exclusive locking the WAL index
    /// lies on the heap, without WAL there is none, and asking for the shared one would make a file.
    fn says(&self, pragma: &'static str, value: &str) -> bool {
        self.query_row(pragma, &[], |row| row.text(0) == Some(value)) == Ok(Some(true))
    }

    fn in_statement(&self) -> bool {
        let shared = self.shared();
        // SAFETY: checked open, on its thread.
        self.is_open()
            && unsafe { (shared.api.txn_state)(shared.db, c"main".as_ptr()) }
                != ffi::SQLITE_TXN_NONE
    }

    fn has_file(&self) -> bool {
        let shared = self.shared();
        // SAFETY: checked open by the caller, on its thread; the text is read at once.
        unsafe {
            let name = (shared.api.db_filename)(shared.db, c"main".as_ptr());
            !name.is_null() && *name != 0
        }
    }

    fn total_changes(&self) -> c_int {
        let shared = self.shared();
        if self.is_open() {
            // SAFETY: open, and on its own thread.
            unsafe { (shared.api.total_changes)(shared.db) }
        } else {
            0
        }
    }
}

/// The head of the WAL index. `file` is the current file of a database in WAL mode that has been read.
fn wal_head(file: usize) -> Option<WalHead> {
    let file = file as *mut ffi::sqlite3_file;
    let mut region: *mut c_void = std::ptr::null_mut();
    // SAFETY: SQLite just returned the pointer for the open handle; methods of version 2 and up have `xShmMap`. The
    // first region of an index in use is mapped already (asked not to extend it), stays so while the connection is in
    // WAL mode, and is larger than two heads. Other processes write it: it is read with volatile loads, and torn
    // reads show as a difference between the two copies, which are written one after the other.
    unsafe {
        let methods = (*file)
            .pMethods
            .as_ref()
            .filter(|methods| methods.iVersion >= 2)?;
        let code = methods.xShmMap?(file, 0, REGION, 0, &raw mut region);
        if code != ffi::SQLITE_OK || region.is_null() {
            return None;
        }
        let words = region.cast::<u32>();
        let read = |first: usize| std::array::from_fn(|at| words.add(first + at).read_volatile());
        let head = WalHead(read(0));
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        (head.0[0] == WalHead::FORMAT && head == WalHead(read(12))).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(conn: &Conn) {
        conn.execute("CREATE TABLE t (v INTEGER)", &[]).unwrap();
        conn.execute("CREATE TABLE other (v INTEGER)", &[]).unwrap();
    }

    const ADD: &str = "INSERT INTO t VALUES (1)";

    fn on_disk(mode: &'static str) -> (tempfile::TempDir, Conn, Conn) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let one = Conn::open(&path).unwrap();
        one.query(mode, &[], |_| ()).unwrap();
        tables(&one);
        let two = Conn::open(&path).unwrap();
        two.query(mode, &[], |_| ()).unwrap();
        (folder, one, two)
    }

    fn own_changes(conn: &Conn) {
        let kept = conn.stamp(None);
        assert!(kept.is_some());
        assert_eq!(conn.stamp(kept), kept, "reading changes nothing");
        let before = conn.begin_change(kept).unwrap();
        conn.execute(ADD, &[]).unwrap();
        let after = conn.end_change(before, 1);
        assert!(after.is_some() && after != kept);
        assert_eq!(conn.stamp(after), after);
        // A transaction of several rows is one commit.
        let before = conn.begin_change(after).unwrap();
        conn.transaction::<_, crate::store::sqlite::SqlError>(|conn| {
            assert_eq!(conn.stamp(kept), None);
            conn.execute(ADD, &[])?;
            conn.execute(ADD, &[])?;
            Ok(())
        })
        .unwrap();
        let after = conn.end_change(before, 2);
        assert!(after.is_some());
        assert_eq!(conn.stamp(after), after);
        // What was not announced is seen, DDL included.
        assert!(
            conn.end_change(conn.begin_change(after).unwrap(), 0)
                .is_none()
        );
        conn.execute("ALTER TABLE other RENAME TO renamed", &[])
            .unwrap();
        assert_ne!(conn.stamp(after), after);
        conn.execute("ALTER TABLE renamed RENAME TO other", &[])
            .unwrap();
    }

    #[test]
    fn own_changes_move_it_by_one_everywhere() {
        let memory = Conn::open_memory().unwrap();
        tables(&memory);
        own_changes(&memory);
        for mode in ["PRAGMA journal_mode = WAL", "PRAGMA journal_mode = DELETE"] {
            let (_folder, one, _two) = on_disk(mode);
            own_changes(&one);
        }
    }

    #[test]
    fn changes_of_others_are_noticed() {
        for mode in ["PRAGMA journal_mode = WAL", "PRAGMA journal_mode = DELETE"] {
            let (_folder, one, two) = on_disk(mode);
            let kept = one.stamp(None);
            two.execute(ADD, &[]).unwrap();
            assert_ne!(one.stamp(kept), kept);
            // Between the look and the write: the write's own step is then not the only one.
            let before = one.begin_change(one.stamp(None)).unwrap();
            two.execute(ADD, &[]).unwrap();
            one.execute(ADD, &[]).unwrap();
            assert_eq!(one.end_change(before, 1), None);
        }
    }

    #[test]
    fn a_trigger_is_more_than_was_announced() {
        let conn = Conn::open_memory().unwrap();
        tables(&conn);
        conn.execute(
            "CREATE TRIGGER copy AFTER INSERT ON t BEGIN INSERT INTO other VALUES (new.v); END",
            &[],
        )
        .unwrap();
        let before = conn.begin_change(conn.stamp(None)).unwrap();
        conn.execute(ADD, &[]).unwrap();
        assert_eq!(conn.end_change(before, 1), None);
    }

    #[test]
    fn on_wal_the_index_tells_without_a_read() {
        let (_folder, one, two) = on_disk("PRAGMA journal_mode = WAL");
        let kept = one.stamp(None).unwrap();
        assert!(kept.wal.is_some());
        // Another's commit right after ours must not hide behind ours.
        let before = one.begin_change(Some(kept)).unwrap();
        one.execute(ADD, &[]).unwrap();
        two.execute(ADD, &[]).unwrap();
        assert_eq!(one.end_change(before, 1), None);
        // Leaving WAL mode and coming back.
        drop(two);
        let kept = one.stamp(None);
        one.query("PRAGMA journal_mode = DELETE", &[], |_| ())
            .unwrap();
        let out = one.stamp(kept);
        assert!(out.is_some_and(|stamp| stamp.wal.is_none()) && out != kept);
        one.query("PRAGMA journal_mode = WAL", &[], |_| ()).unwrap();
        one.execute(ADD, &[]).unwrap();
        assert!(one.stamp(out).is_some_and(|stamp| stamp.wal.is_some()));
    }

    #[test]
    fn no_index_file_is_made_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = Conn::open(&path).unwrap();
        conn.query("PRAGMA journal_mode = DELETE", &[], |_| ())
            .unwrap();
        tables(&conn);
        assert!(conn.stamp(conn.stamp(None)).is_some());
        conn.query("PRAGMA locking_mode = EXCLUSIVE", &[], |_| ())
            .unwrap();
        conn.query("PRAGMA journal_mode = WAL", &[], |_| ())
            .unwrap();
        conn.execute(ADD, &[]).unwrap();
        let kept = conn.stamp(None);
        assert!(kept.is_some_and(|stamp| stamp.wal.is_none()));
        assert_eq!(conn.stamp(kept), kept);
        assert!(!folder.path().join("a.db-shm").exists());
    }
}
