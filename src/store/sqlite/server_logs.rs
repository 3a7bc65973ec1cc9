//! Lines for the host's own log table, `server_logs`. Hosts shape it differently, so a line is written into whatever
//! columns of known meaning the table has; a table that wants more than that gets no line.

use chrono::{DateTime, SecondsFormat};

use super::connection::Conn;
use super::error::SqlError;
use super::statement::Param;

const MESSAGE: &[&str] = &["message", "msg", "text"];
const LEVEL: &[&str] = &["level", "severity"];
const TAG: &[&str] = &["source", "scope", "component", "category", "tag", "event"];
const TIME: &[&str] = &[
    "created_at_ms",
    "timestamp_ms",
    "ts",
    "timestamp",
    "time",
    "created_at",
];

/// A line of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    /// `warn` or `error`.
    pub level: &'a str,
    pub tag: &'a str,
    pub message: &'a str,
    pub at: f64,
}

struct Column {
    name: String,
    numeric: bool,
    has_default: bool,
}

/// Writes a line where the table exists and has a column for the message; whether it did.
pub fn write(conn: &Conn, line: LogLine<'_>) -> Result<bool, SqlError> {
    let columns = conn.query(
        "SELECT name, type, dflt_value FROM pragma_table_info('server_logs')",
        &[],
        |row| {
            let kind = row.string(1).unwrap_or_default().to_ascii_uppercase();
            Column {
                name: row.string(0).unwrap_or_default(),
                numeric: kind.contains("INT") || kind.contains("REAL") || kind.contains("NUM"),
                has_default: !row.is_null(2),
            }
        },
    )?;
    let find = |names: &[&str]| {
        columns
            .iter()
            .find(|column| names.contains(&column.name.as_str()))
    };
    let Some(message) = find(MESSAGE) else {
        return Ok(false);
    };
    let instant = iso(line.at);
    let mut values: Vec<(&str, Param<'_>)> = vec![(&message.name, line.message.into())];
    values.extend(find(LEVEL).map(|column| (column.name.as_str(), line.level.into())));
    values.extend(find(TAG).map(|column| (column.name.as_str(), line.tag.into())));
    // A default is the host's own way to write its time.
    values.extend(
        find(TIME)
            .filter(|column| !column.has_default)
            .map(|column| {
                (
                    column.name.as_str(),
                    if column.numeric {
                        Param::Num(line.at)
                    } else {
                        instant.as_str().into()
                    },
                )
            }),
    );
    let (names, params): (Vec<&str>, Vec<Param<'_>>) = values.into_iter().unzip();
    let marks = vec!["?"; names.len()].join(", ");
    // The names come from the lists above.
    conn.execute_dynamic(
        &format!(
            "INSERT INTO server_logs ({}) VALUES ({marks})",
            names.join(", ")
        ),
        &params,
    )?;
    Ok(true)
}

#[allow(clippy::cast_possible_truncation)] // an instant out of range becomes the epoch
fn iso(at: f64) -> String {
    DateTime::from_timestamp_millis(at as i64)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LogLine<'static> = LogLine {
        level: "warn",
        tag: "quota:test",
        message: "hello",
        at: 1000.0,
    };

    #[test]
    fn writes_into_the_columns_that_are_there() {
        let conn = Conn::open_memory().expect("open");
        assert_eq!(write(&conn, LINE), Ok(false));
        conn.execute_dynamic("CREATE TABLE server_logs (level TEXT NOT NULL, message TEXT NOT NULL, ts INTEGER NOT NULL)", &[])
            .expect("create");
        assert_eq!(write(&conn, LINE), Ok(true));
        let row = conn
            .query_row("SELECT level, message, ts FROM server_logs", &[], |row| {
                (row.string(0), row.string(1), row.int(2))
            })
            .expect("read");
        assert_eq!(
            row,
            Some((
                Some("warn".to_owned()),
                Some("hello".to_owned()),
                Some(1000)
            ))
        );
    }

    #[test]
    fn a_table_that_wants_more_gets_no_line() {
        let conn = Conn::open_memory().expect("open");
        conn.execute_dynamic(
            "CREATE TABLE server_logs (message TEXT, request_id TEXT NOT NULL)",
            &[],
        )
        .expect("create");
        assert!(write(&conn, LINE).is_err());
    }
}
