//! Whether the database is still what it was: a stamp that changes with every change, whoever made it. Owns the question;
//! what is kept in memory under a stamp is the caller's.
//!
//! The pager counts changes to its file, its own connection's and those of others, but it learns of others only when a
//! read begins. Stepping `PRAGMA data_version` begins one.

use std::ffi::{c_int, c_void};

use libsqlite3_sys as ffi;

use super::Conn;

/// A state of the main database as one connection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    version: u32,
    /// `deserialize` puts another file, with a count of its own, behind the same connection.
    file: usize,
}

/// What [`Conn::begin_change`] saw.
#[derive(Debug, Clone, Copy)]
pub struct BeforeChange {
    stamp: Stamp,
    total_changes: c_int,
}

impl Conn {
    /// The stamp of what a statement would read now; `None` inside a transaction or a running statement, whose changes no
    /// stamp tells apart, and where the file cannot be read.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        if !self.autocommit() || self.in_statement() {
            return None;
        }
        // A private database has no other writers to learn of.
        if self.has_file() {
            self.query_row("PRAGMA data_version", &[], |_| ()).ok()??;
        }
        self.current_stamp()
    }

    /// Call before a change, with the stamp under which things are kept; `None` when they are out of date.
    #[must_use]
    pub fn begin_change(&self, kept: Option<Stamp>) -> Option<BeforeChange> {
        let stamp = self.stamp().filter(|stamp| Some(*stamp) == kept)?;
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
        let stamp = self.current_stamp()?;
        let one_commit = stamp.version == before.stamp.version.wrapping_add(1)
            && stamp.file == before.stamp.file;
        let expected = before.total_changes.wrapping_add(rows);
        (one_commit && self.total_changes() == expected).then_some(stamp)
    }

    fn current_stamp(&self) -> Option<Stamp> {
        let mut version = 0_u32;
        let mut file = std::ptr::null_mut::<c_void>();
        self.control(ffi::SQLITE_FCNTL_DATA_VERSION, (&raw mut version).cast())?;
        self.control(ffi::SQLITE_FCNTL_FILE_POINTER, (&raw mut file).cast())?;
        Some(Stamp {
            version,
            file: file as usize,
        })
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
        let kept = conn.stamp();
        assert!(kept.is_some());
        assert_eq!(conn.stamp(), kept, "reading changes nothing");
        let before = conn.begin_change(kept).unwrap();
        conn.execute(ADD, &[]).unwrap();
        let after = conn.end_change(before, 1);
        assert!(after.is_some() && after != kept);
        assert_eq!(conn.stamp(), after);
        // A transaction of several rows is one commit.
        let before = conn.begin_change(after).unwrap();
        conn.transaction::<_, crate::store::sqlite::SqlError>(|conn| {
            assert_eq!(conn.stamp(), None);
            conn.execute(ADD, &[])?;
            conn.execute(ADD, &[])?;
            Ok(())
        })
        .unwrap();
        let after = conn.end_change(before, 2);
        assert!(after.is_some());
        assert_eq!(conn.stamp(), after);
        // What was not announced is seen, DDL included.
        assert!(
            conn.end_change(conn.begin_change(after).unwrap(), 0)
                .is_none()
        );
        conn.execute("ALTER TABLE other RENAME TO renamed", &[])
            .unwrap();
        assert_ne!(conn.stamp(), after);
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
            let kept = one.stamp();
            two.execute(ADD, &[]).unwrap();
            assert_ne!(one.stamp(), kept);
            // Between the look and the write: the write's own step is then not the only one.
            let before = one.begin_change(one.stamp()).unwrap();
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
        let before = conn.begin_change(conn.stamp()).unwrap();
        conn.execute(ADD, &[]).unwrap();
        assert_eq!(conn.end_change(before, 1), None);
    }
}
