//! The way in that hosts take, without Node: SQLite calls the extension's entry point for each connection that is opened,
//! the handle is adopted, guarded and watched, and the host closes it. Run under memcheck too: nothing may touch freed memory.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use libsqlite3_sys as ffi;
use rusqlite::Connection;

use super::api::Db;
use super::index::{Index, RouteRef};
use super::usage::{self, UsageKind};
use super::{Conn, sqlite3_extension_init};
use crate::core::route::RouteName;
use crate::core::windows::Span;

const NOW: f64 = 1_800_000_000_000.0;
const NAME: RouteName<'static> = RouteName {
    platform: "groq",
    model: "m",
    key: 1.0,
};
const ROUTE: RouteRef<'static> = RouteRef {
    route: 0,
    account: 0,
    name: NAME,
};
const TABLES: &str = "CREATE TABLE rate_limit_usage (id INTEGER PRIMARY KEY, platform TEXT, model_id TEXT, key_id INTEGER, \
     kind TEXT, tokens INTEGER DEFAULT 0, created_at_ms INTEGER)";
const INSERT: &str = "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, created_at_ms) \
     VALUES ('groq', 'm', 1, 'request', 1799999999000)";

thread_local! {
    /// The function table that SQLite passed last.
    static TABLE: Cell<*const c_void> = const { Cell::new(std::ptr::null()) };
}

/// For `sqlite3_auto_extension`, which takes everything but OK for a failure.
unsafe extern "C" fn entry(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    table: *const ffi::sqlite3_api_routines,
) -> c_int {
    TABLE.set(table.cast());
    // SAFETY: what SQLite passes is passed on.
    let code = unsafe { sqlite3_extension_init(db.cast::<Db>(), message, table.cast::<c_void>()) };
    if code == ffi::SQLITE_OK_LOAD_PERMANENTLY {
        ffi::SQLITE_OK
    } else {
        code
    }
}

/// A host's connection and ours on it.
fn attach(path: &str) -> (Connection, Conn) {
    // SAFETY: the entry point stays loaded; registering it again changes nothing.
    let registered = unsafe { ffi::sqlite3_auto_extension(Some(entry)) };
    assert_eq!(registered, ffi::SQLITE_OK);
    Conn::expect_load();
    let host = Connection::open(path).expect("a connection");
    let conn = Conn::adopt().expect("the entry point was called");
    (host, conn)
}

/// What `loadExtension` does on a connection that is open already.
fn attach_again(host: &Connection) -> Conn {
    Conn::expect_load();
    // SAFETY: the handle is live, and the table is that of its copy of SQLite.
    let code = unsafe {
        sqlite3_extension_init(
            host.handle().cast::<Db>(),
            std::ptr::null_mut(),
            TABLE.get(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK_LOAD_PERMANENTLY);
    Conn::adopt().expect("the entry point was called")
}

/// Requests of the route, from memory where it may answer.
fn requests(index: &mut Index, conn: &Conn) -> f64 {
    let after = NOW - 60_000.0;
    let remembered = index
        .look(conn, 1)
        .then(|| index.requests(conn, &ROUTE, after, Span::Minute, NOW))
        .flatten();
    let counted = usage::requests(conn, &NAME, after).expect("a count");
    if let Some(remembered) = remembered {
        assert_eq!(remembered, counted);
    }
    counted
}

#[test]
fn adopted_watched_and_closed_by_the_host() {
    let (host, conn) = attach(":memory:");
    host.execute_batch(TABLES).expect("tables");
    let mut index = Index::new();
    assert_eq!(requests(&mut index, &conn), 0.0);
    assert!(index.look(&conn, 1));
    usage::insert(&conn, &NAME, UsageKind::Request, 0.0, NOW).expect("a row");
    index.inserted(&conn, &ROUTE, &[(UsageKind::Request, 0.0)], NOW);
    assert_eq!(requests(&mut index, &conn), 1.0);
    for _ in 0..3 {
        host.execute_batch(INSERT).expect("a row of the host");
    }
    assert_eq!(requests(&mut index, &conn), 4.0);
    host.execute_batch("BEGIN; DELETE FROM rate_limit_usage")
        .expect("a transaction");
    assert_eq!(requests(&mut index, &conn), 0.0);
    host.execute_batch("ROLLBACK").expect("a rollback");
    assert_eq!(requests(&mut index, &conn), 4.0);
    assert!(index.stats.hits > 0);
    host.close()
        .expect("closed although statements of ours are kept");
    assert!(!conn.is_open());
    assert!(!index.look(&conn, 1));
    assert!(usage::requests(&conn, &NAME, 0.0).is_err());
}

#[test]
fn rows_of_a_failed_statement_do_not_hide_a_truncation() {
    let (host, conn) = attach(":memory:");
    host.execute_batch(TABLES).expect("tables");
    host.execute_batch("CREATE TABLE once (x UNIQUE); INSERT INTO once VALUES (0)")
        .expect("a table");
    let mut index = Index::new();
    for _ in 0..3 {
        host.execute_batch(INSERT).expect("a row of the host");
    }
    assert_eq!(requests(&mut index, &conn), 3.0);
    // Three rows are reported and taken back; three rows go without a report.
    assert!(
        host.execute_batch("INSERT INTO once VALUES (1), (2), (3), (0)")
            .is_err()
    );
    host.execute_batch("DELETE FROM rate_limit_usage")
        .expect("a truncation");
    assert_eq!(requests(&mut index, &conn), 0.0);
}

#[test]
fn commits_of_another_connection_on_a_wal_file() {
    let folder = std::env::temp_dir().join(format!("quota-core-entry-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("host.db");
    let name = path.to_str().expect("a path in UTF-8");
    {
        let (host, conn) = attach(name);
        host.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
            .expect("a mode");
        host.execute_batch(TABLES).expect("tables");
        let (other, _unused) = attach(name);
        let mut index = Index::new();
        for count in 1..=5 {
            other.execute_batch(INSERT).expect("a row of another");
            assert_eq!(requests(&mut index, &conn), f64::from(count));
        }
        other
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .expect("a checkpoint");
        assert_eq!(requests(&mut index, &conn), 5.0);
        drop(other);
        host.execute_batch("PRAGMA journal_mode = DELETE")
            .expect("a mode");
        assert_eq!(requests(&mut index, &conn), 5.0);
        host.execute_batch("VACUUM").expect("a vacuum");
        assert_eq!(requests(&mut index, &conn), 5.0);
    }
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
}

/// An image of the main database, in memory that SQLite may free.
fn serialize(host: &Connection) -> (*mut u8, i64) {
    let mut size = 0;
    // SAFETY: the handle is live.
    let image =
        unsafe { ffi::sqlite3_serialize(host.handle(), c"main".as_ptr(), &raw mut size, 0) };
    assert!(!image.is_null());
    (image, size)
}

#[test]
fn images_that_take_the_place_of_the_database() {
    let (host, mut conn) = attach(":memory:");
    host.execute_batch(TABLES).expect("tables");
    let mut index = Index::new();
    for count in 0..6_u32 {
        assert_eq!(requests(&mut index, &conn), f64::from(count));
        let (image, size) = serialize(&host);
        usage::insert(&conn, &NAME, UsageKind::Request, 0.0, NOW).expect("a row");
        assert_eq!(requests(&mut index, &conn), f64::from(count + 1));
        let flags = ffi::SQLITE_DESERIALIZE_FREEONCLOSE | ffi::SQLITE_DESERIALIZE_RESIZEABLE;
        // SAFETY: the image is SQLite's own memory, which it owns from here on.
        let code = unsafe {
            ffi::sqlite3_deserialize(host.handle(), c"main".as_ptr(), image, size, size, flags)
        };
        assert_eq!(code, ffi::SQLITE_OK);
        // The guard goes with the old database's schema, at the first statement after it. When that is the host's own, the
        // next call attaches again.
        if count % 2 == 0 {
            host.query_row("SELECT COUNT(*) FROM rate_limit_usage", [], |_| Ok(()))
                .expect("a count");
            if !conn.is_open() {
                conn = attach_again(&host);
                index = Index::new();
            }
        }
        assert_eq!(requests(&mut index, &conn), f64::from(count));
        usage::insert(&conn, &NAME, UsageKind::Request, 0.0, NOW).expect("a row");
    }
    drop(host);
    assert!(!conn.is_open());
}
