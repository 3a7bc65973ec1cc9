//! Which tables changed since a reader last looked, and whether a change of its own was all that happened.
//!
//! A reader keeps what it read under the version of the table; a version moves with every change that the reader did not
//! apply itself. Each reader has its own versions, so several on one connection see each other's changes. This file owns
//! versions and which tables can be followed; the signals are `watch`'s, what is kept is the reader's.

use super::connection::Conn;
use super::error::SqlError;
use super::statement::Param::Text;
use super::watch::{Cause, Epochs, Mark, PerTable, Watched};

/// Versions of the tables that one reader remembers.
#[derive(Debug, Default)]
pub struct Follower {
    tables: &'static [Watched],
    /// What was known at the last look.
    last: Option<Epochs>,
    mark: Option<Mark>,
    versions: PerTable<u64>,
    /// Why the version of a table last moved.
    causes: PerTable<Cause>,
    usable: PerTable<bool>,
}

impl Follower {
    #[must_use]
    pub fn new(tables: &'static [Watched]) -> Self {
        Self {
            tables,
            ..Self::default()
        }
    }

    /// Looks whether anything changed. `false`: nothing can be said now, SQL has to answer.
    pub fn look(&mut self, conn: &Conn) -> bool {
        let Some(mark) = conn.mark() else {
            return false;
        };
        if self.mark != Some(mark) {
            self.follow(conn, conn.known_epochs());
            self.mark = Some(mark);
        }
        true
    }

    /// Moves the versions of the tables that changed since the last look.
    fn follow(&mut self, conn: &Conn, now: Epochs) {
        let same_schema = self.last.is_some_and(|last| last.schema == now.schema);
        for table in self.tables.iter().copied() {
            if !same_schema {
                let usable = can_be_followed(conn, table).unwrap_or(false);
                conn.set_followed(table, usable);
                self.usable[table as usize] = usable;
            }
            match &self.last {
                Some(last) if last.same(table, &now) => {}
                last => {
                    self.versions[table as usize] += 1;
                    self.causes[table as usize] =
                        last.map_or(Cause::default(), |last| now.cause_since(&last));
                }
            }
        }
        self.last = Some(now);
    }

    /// Call after a commit of ours that changed `rows` rows of one table: whether that is all that happened to it since
    /// the last look, so that the change may be applied in memory.
    pub fn was_only(&mut self, conn: &Conn, table: Watched, rows: u64) -> bool {
        let Some(last) = self.last else { return false };
        let Some(now) = conn.epochs_after_own_rows(rows) else {
            return false;
        };
        let version = self.versions[table as usize];
        let only =
            now.unexplained == last.unexplained && now.rows(table) == last.rows(table) + rows;
        self.follow(conn, now);
        if only {
            self.versions[table as usize] = version;
        }
        only
    }

    /// After reading a table: whether it is still what it was when the reading began.
    pub fn confirm(&mut self, conn: &Conn, table: Watched) -> bool {
        let Some(now) = conn.epochs() else {
            return false;
        };
        let same = self.last.is_some_and(|last| last.same(table, &now));
        self.follow(conn, now);
        same
    }

    #[must_use]
    pub fn version(&self, table: Watched) -> u64 {
        self.versions[table as usize]
    }

    /// Why what was read under an earlier version has to be read again.
    #[must_use]
    pub fn cause(&self, table: Watched) -> Cause {
        self.causes[table as usize]
    }

    /// One version of several tables: versions only grow, so their sum stands still when all of them do.
    #[must_use]
    pub fn version_of(&self, tables: &[Watched]) -> u64 {
        tables.iter().map(|table| self.version(*table)).sum()
    }

    /// Whether what is read from the table may be kept.
    #[must_use]
    pub fn is_usable(&self, table: Watched) -> bool {
        self.usable[table as usize]
    }
}

/// Whether the name means an ordinary table of the main database whose rows change in ways that can be followed.
fn can_be_followed(conn: &Conn, table: Watched) -> Result<bool, SqlError> {
    let name = Text(table.table());
    // A temporary table or view of the same name would be what SQL reads. The temp database is not opened to ask: the
    // host's BEGIN IMMEDIATE would move it from then on.
    if conn.has_temp() {
        let shadowed = conn.query_row(
            "SELECT 1 FROM temp.sqlite_master WHERE (lower(name) = ?1 AND type IN ('table', 'view')) \
             OR (lower(tbl_name) = ?1 AND type = 'trigger' AND sql LIKE '%IGNORE%')",
            &[name],
            |_| (),
        )?;
        if shadowed.is_some() {
            return Ok(false);
        }
    }
    // WITHOUT ROWID tables are invisible to the update hook, and so are the rows that ON CONFLICT REPLACE takes away.
    // With a collation or a generated column, equal means something else than in memory.
    let definition = conn.query_row(
        "SELECT type = 'table' AND rootpage > 0, sql FROM main.sqlite_master \
         WHERE lower(name) = ? AND type IN ('table', 'view')",
        &[name],
        |row| {
            let sql = row.string(1).unwrap_or_default().to_ascii_uppercase();
            let words = ["COLLATE", "GENERATED", "WITHOUT", "REPLACE"];
            row.int(0) == Some(1) && !words.iter().any(|word| sql.contains(word))
        },
    )?;
    if definition != Some(true) {
        return Ok(false);
    }
    // A trigger that writes one row and lets another fall under the table counts as one row, like the write it replaced.
    let replacing = conn.query_row(
        "SELECT 1 FROM main.sqlite_master WHERE lower(tbl_name) = ? AND type = 'trigger' AND sql LIKE '%IGNORE%'",
        &[name],
        |_| (),
    )?;
    if replacing.is_some() {
        return Ok(false);
    }
    let columns = conn.query(
        "SELECT lower(name), upper(type) FROM pragma_table_info(?, 'main')",
        &[name],
        |row| {
            (
                row.string(0).unwrap_or_default(),
                row.string(1).unwrap_or_default(),
            )
        },
    )?;
    Ok(expected_columns(table).iter().all(|(name, kind)| {
        columns
            .iter()
            .any(|(column, declared)| column == name && declared == kind)
    }))
}

/// Columns that must be there with these declared types (upper case), for equality and sums to mean what they mean in
/// memory. Of the other tables only whole answers of SQL are kept.
fn expected_columns(table: Watched) -> &'static [(&'static str, &'static str)] {
    match table {
        Watched::Usage => &[
            ("platform", "TEXT"),
            ("model_id", "TEXT"),
            ("key_id", "INTEGER"),
            ("kind", "TEXT"),
            ("tokens", "INTEGER"),
            ("created_at_ms", "INTEGER"),
        ],
        Watched::Cooldowns => &[
            ("platform", "TEXT"),
            ("model_id", "TEXT"),
            ("key_id", "INTEGER"),
            ("expires_at_ms", "INTEGER"),
        ],
        Watched::Keys => &[("id", "INTEGER")],
        Watched::Consumption => &[
            ("api_key_id", "TEXT"),
            ("dimension_key", "TEXT"),
            ("bucket_index", "INTEGER"),
            ("consumed", "REAL"),
        ],
        Watched::Pools
        | Watched::PoolConnections
        | Watched::Allocations
        | Watched::Plans
        | Watched::ModelCaps => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{share_consumption, share_schema};

    const TABLES: [Watched; 4] = [
        Watched::Consumption,
        Watched::Pools,
        Watched::Allocations,
        Watched::Plans,
    ];
    const MODES: [&str; 2] = ["PRAGMA journal_mode = WAL", "PRAGMA journal_mode = DELETE"];
    const HOST_ROW: &str = "INSERT INTO host_log VALUES (1)";

    fn seed(conn: &Conn) {
        share_schema::ensure(conn).unwrap();
        for sql in [
            "CREATE TABLE host_log (v INTEGER)",
            "INSERT INTO quota_pools VALUES ('p', 'c', 'P', '2026', 'g')",
            "INSERT INTO quota_allocations VALUES ('p', 'k', 1, NULL, NULL, 'hard')",
            "INSERT INTO provider_plans VALUES ('c', 'p', '[]', 'manual', '2026')",
            "INSERT INTO quota_consumption VALUES ('k', 'p:usd:5h', 1, 1, 1)",
        ] {
            conn.execute_dynamic(sql, &[]).unwrap();
        }
    }

    fn private() -> Conn {
        let conn = Conn::open_memory().unwrap();
        seed(&conn);
        conn
    }

    fn on_disk(mode: &'static str) -> (tempfile::TempDir, Conn, Conn) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let one = Conn::open(&path).unwrap();
        one.query(mode, &[], |_| ()).unwrap();
        seed(&one);
        let two = Conn::open(&path).unwrap();
        two.query(mode, &[], |_| ()).unwrap();
        (folder, one, two)
    }

    fn add(conn: &Conn, key: &str) {
        share_consumption::increment(conn, key, "p:usd:5h", 1.0, 1.0, 1.0).unwrap();
    }

    /// Which tables changed since the last look.
    fn changed(follower: &mut Follower, conn: &Conn) -> Vec<Watched> {
        let before = follower.versions;
        assert!(follower.look(conn));
        TABLES
            .into_iter()
            .filter(|table| follower.version(*table) != before[*table as usize])
            .collect()
    }

    fn started(conn: &Conn) -> Follower {
        let mut follower = Follower::new(&TABLES);
        assert_eq!(changed(&mut follower, conn), TABLES);
        follower
    }

    fn own_changes(conn: &Conn) {
        let mut follower = started(conn);
        assert!(changed(&mut follower, conn).is_empty());
        add(conn, "k");
        assert!(follower.was_only(conn, Watched::Consumption, 1));
        // A transaction of several rows is one commit.
        conn.transaction::<_, SqlError>(|conn| {
            add(conn, "k");
            add(conn, "j");
            assert!(!follower.look(conn));
            Ok(())
        })
        .unwrap();
        assert!(follower.was_only(conn, Watched::Consumption, 2));
        assert!(changed(&mut follower, conn).is_empty());
        // A commit of the host before ours.
        conn.execute(HOST_ROW, &[]).unwrap();
        add(conn, "k");
        assert!(follower.was_only(conn, Watched::Consumption, 1));
        add(conn, "k");
        add(conn, "k");
        assert!(!follower.was_only(conn, Watched::Consumption, 1));
        // Undone by the host: nothing of it may stay.
        conn.execute("BEGIN", &[]).unwrap();
        add(conn, "k");
        assert!(!follower.was_only(conn, Watched::Consumption, 1));
        conn.execute("ROLLBACK", &[]).unwrap();
        assert_eq!(changed(&mut follower, conn), [Watched::Consumption]);
    }

    #[test]
    fn own_changes_are_told_from_all_others_everywhere() {
        own_changes(&private());
        for mode in MODES {
            let (_folder, one, _two) = on_disk(mode);
            own_changes(&one);
        }
    }

    #[test]
    fn changes_of_other_connections_are_noticed() {
        for mode in MODES {
            let (_folder, one, two) = on_disk(mode);
            let mut follower = started(&one);
            two.execute(HOST_ROW, &[]).unwrap();
            assert_eq!(changed(&mut follower, &one), TABLES);
            // Right before a write of ours, and right after it.
            add(&two, "k");
            add(&one, "k");
            assert!(!follower.was_only(&one, Watched::Consumption, 1));
            assert!(changed(&mut follower, &one).is_empty());
            add(&one, "k");
            add(&two, "k");
            let only = follower.was_only(&one, Watched::Consumption, 1);
            assert!(!only || changed(&mut follower, &one) == TABLES);
        }
    }

    #[test]
    fn other_tables_of_the_host_change_nothing() {
        let conn = private();
        let mut follower = started(&conn);
        for sql in [
            HOST_ROW,
            "UPDATE host_log SET v = 2",
            "INSERT INTO quota_groups (id, name) VALUES ('n', 'N')",
        ] {
            conn.execute_dynamic(sql, &[]).unwrap();
            assert!(changed(&mut follower, &conn).is_empty(), "{sql}");
        }
        conn.execute("UPDATE provider_plans SET provider = 'q'", &[])
            .unwrap();
        assert_eq!(changed(&mut follower, &conn), [Watched::Plans]);
    }

    #[test]
    fn what_nobody_reports_changes_everything() {
        let conn = private();
        conn.execute(
            "CREATE TABLE bare (v INTEGER PRIMARY KEY) WITHOUT ROWID",
            &[],
        )
        .unwrap();
        let mut follower = started(&conn);
        for sql in [
            "INSERT INTO bare VALUES (1)",
            "DELETE FROM quota_consumption",
            "ALTER TABLE host_log RENAME TO renamed",
            "CREATE TEMP TABLE passing (v INTEGER)",
        ] {
            conn.execute_dynamic(sql, &[]).unwrap();
            assert_eq!(changed(&mut follower, &conn), TABLES, "{sql}");
        }
    }

    #[test]
    fn rows_that_go_with_their_parent_are_seen() {
        for sql in [
            "DELETE FROM quota_pools WHERE id = 'p'",
            "REPLACE INTO quota_pools VALUES ('p', 'd', 'P', '2026', 'g')",
        ] {
            let conn = private();
            let mut follower = started(&conn);
            conn.execute_dynamic(sql, &[]).unwrap();
            let seen = changed(&mut follower, &conn);
            assert!(seen.contains(&Watched::Pools), "{sql}");
            assert!(seen.contains(&Watched::Allocations), "{sql}");
            let left = conn
                .query("SELECT 1 FROM quota_allocations", &[], |_| ())
                .unwrap();
            assert!(left.is_empty(), "{sql}");
        }
    }

    #[test]
    fn a_trigger_that_adds_to_our_change_is_seen() {
        let conn = private();
        conn.execute(
            "CREATE TRIGGER log AFTER INSERT ON quota_consumption BEGIN INSERT INTO host_log VALUES (1); END",
            &[],
        )
        .unwrap();
        let mut follower = started(&conn);
        add(&conn, "j");
        assert!(follower.was_only(&conn, Watched::Consumption, 1));
        conn.execute(
            "CREATE TRIGGER double AFTER INSERT ON quota_consumption BEGIN \
             UPDATE quota_consumption SET consumed = 2 * consumed; END",
            &[],
        )
        .unwrap();
        assert_eq!(changed(&mut follower, &conn), TABLES);
        add(&conn, "i");
        assert!(!follower.was_only(&conn, Watched::Consumption, 1));
        conn.execute(
            "CREATE TRIGGER instead BEFORE INSERT ON quota_consumption BEGIN \
             UPDATE quota_consumption SET consumed = 0 WHERE api_key_id = 'j'; SELECT raise(ignore); END",
            &[],
        )
        .unwrap();
        assert!(follower.look(&conn) && !follower.is_usable(Watched::Consumption));
    }

    #[test]
    fn readers_of_one_connection_see_each_other() {
        let conn = private();
        let (mut one, mut two) = (started(&conn), started(&conn));
        add(&conn, "k");
        assert!(one.was_only(&conn, Watched::Consumption, 1));
        assert_eq!(changed(&mut two, &conn), [Watched::Consumption]);
        assert!(changed(&mut one, &conn).is_empty());
    }

    #[test]
    fn names_that_mean_something_else_are_not_kept() {
        let conn = Conn::open_memory().unwrap();
        let mut follower = started(&conn);
        assert!(!follower.is_usable(Watched::Pools));
        seed(&conn);
        assert_eq!(changed(&mut follower, &conn), TABLES);
        assert!(follower.is_usable(Watched::Pools));
        for (make, unmake) in [
            (
                "CREATE TEMP TABLE quota_pools (id TEXT)",
                "DROP TABLE temp.quota_pools",
            ),
            (
                "ALTER TABLE quota_pools RENAME TO pools; CREATE VIEW quota_pools AS SELECT * FROM pools",
                "DROP VIEW quota_pools; ALTER TABLE pools RENAME TO quota_pools",
            ),
        ] {
            for sql in make.split("; ") {
                conn.execute_dynamic(sql, &[]).unwrap();
            }
            assert!(
                follower.look(&conn) && !follower.is_usable(Watched::Pools),
                "{make}"
            );
            for sql in unmake.split("; ") {
                conn.execute_dynamic(sql, &[]).unwrap();
            }
            assert!(
                follower.look(&conn) && follower.is_usable(Watched::Pools),
                "{unmake}"
            );
        }
    }

    #[test]
    fn the_temp_database_may_live_beside() {
        let (_folder, conn, _two) = on_disk(MODES[0]);
        let mut follower = started(&conn);
        conn.execute("CREATE TEMP TABLE passing (v INTEGER)", &[])
            .unwrap();
        assert_eq!(changed(&mut follower, &conn), TABLES);
        for sql in [
            "INSERT INTO passing VALUES (1)",
            "BEGIN IMMEDIATE",
            "COMMIT",
            "BEGIN IMMEDIATE",
            HOST_ROW,
            "COMMIT",
        ] {
            conn.execute_dynamic(sql, &[]).unwrap();
            assert!(!conn.autocommit() || changed(&mut follower, &conn).is_empty());
        }
    }

    #[test]
    fn leaving_wal_mode_and_coming_back_is_seen() {
        let (_folder, one, two) = on_disk(MODES[0]);
        drop(two);
        let mut follower = started(&one);
        for mode in [MODES[1], MODES[0]] {
            one.query(mode, &[], |_| ()).unwrap();
            assert!(follower.look(&one));
            assert!(changed(&mut follower, &one).is_empty());
            add(&one, "k");
            assert_eq!(changed(&mut follower, &one), [Watched::Consumption]);
            add(&one, "k");
            assert!(follower.was_only(&one, Watched::Consumption, 1), "{mode}");
        }
    }

    #[test]
    fn no_index_file_is_made_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Conn::open(&folder.path().join("a.db")).unwrap();
        conn.query(MODES[1], &[], |_| ()).unwrap();
        seed(&conn);
        let mut follower = started(&conn);
        conn.query("PRAGMA locking_mode = EXCLUSIVE", &[], |_| ())
            .unwrap();
        conn.query(MODES[0], &[], |_| ()).unwrap();
        add(&conn, "k");
        assert!(follower.look(&conn));
        add(&conn, "k");
        assert!(follower.was_only(&conn, Watched::Consumption, 1));
        assert!(!folder.path().join("a.db-shm").exists());
    }
}
