//! Counters of quota sharing: rows of `quota_consumption`, one per key, dimension and bucket. Owns their SQL; which bucket
//! is meant and what a value is worth is the core's arithmetic.

use super::{Conn, Param, SqlError};
use crate::core::share::sliding::{Pair, WINDOWS, bucket_index};

/// One stored bucket, as the host's usage page lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumptionRow {
    pub api_key_id: String,
    pub dimension_key: String,
    pub bucket_index: f64,
    pub consumed: f64,
    pub updated_at: f64,
}

/// Adds to a bucket, creating it when it is not there: one statement, so no two writers can lose each other's part.
/// A cost or bucket that is no number breaks the NOT NULL of its column.
pub fn increment(
    conn: &Conn,
    key: &str,
    dimension: &str,
    bucket: f64,
    cost: f64,
    now: f64,
) -> Result<(), SqlError> {
    conn.execute(
        "INSERT INTO quota_consumption (api_key_id, dimension_key, bucket_index, consumed, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (api_key_id, dimension_key, bucket_index) DO UPDATE SET \
         consumed = consumed + excluded.consumed, updated_at = excluded.updated_at",
        &[Param::Text(key), Param::Text(dimension), Param::Num(bucket), Param::Num(cost), Param::Num(now)],
    )?;
    Ok(())
}

/// One bucket; 0 when there is none. (Primary key.)
pub fn bucket(conn: &Conn, key: &str, dimension: &str, bucket: f64) -> Result<f64, SqlError> {
    let row = conn.query_row(
        "SELECT consumed FROM quota_consumption WHERE api_key_id = ?1 AND dimension_key = ?2 AND bucket_index = ?3",
        &[Param::Text(key), Param::Text(dimension), Param::Num(bucket)],
        |row| row.num(0),
    )?;
    Ok(row.flatten().unwrap_or(0.0))
}

/// The bucket and the one before it. (Primary key.)
pub fn pair(conn: &Conn, key: &str, dimension: &str, current: f64) -> Result<Pair, SqlError> {
    let rows = conn.query(
        "SELECT bucket_index = ?3, consumed FROM quota_consumption \
         WHERE api_key_id = ?1 AND dimension_key = ?2 AND bucket_index IN (?3, ?4)",
        &[
            Param::Text(key),
            Param::Text(dimension),
            Param::Num(current),
            Param::Num(current - 1.0),
        ],
        |row| (row.int(0) == Some(1), row.num(1).unwrap_or(0.0)),
    )?;
    Ok(to_pair(rows))
}

/// The two buckets of a dimension over all keys. (Index on dimension and bucket; SQLite's own compensated sum.)
pub fn dimension_totals(conn: &Conn, dimension: &str, current: f64) -> Result<Pair, SqlError> {
    let rows = conn.query(
        "SELECT bucket_index = ?2, SUM(consumed) FROM quota_consumption \
         WHERE dimension_key = ?1 AND bucket_index IN (?2, ?3) GROUP BY bucket_index",
        &[
            Param::Text(dimension),
            Param::Num(current),
            Param::Num(current - 1.0),
        ],
        |row| (row.int(0) == Some(1), row.num(1).unwrap_or(0.0)),
    )?;
    Ok(to_pair(rows))
}

/// Every row of the two buckets of a dimension, in the order in which SQLite sums them: key, is current, consumed.
pub fn dimension_rows(
    conn: &Conn,
    dimension: &str,
    current: f64,
) -> Result<Vec<(String, bool, f64)>, SqlError> {
    conn.query(
        "SELECT api_key_id, bucket_index = ?2, consumed FROM quota_consumption \
         WHERE dimension_key = ?1 AND bucket_index IN (?2, ?3) ORDER BY bucket_index, rowid",
        &[
            Param::Text(dimension),
            Param::Num(current),
            Param::Num(current - 1.0),
        ],
        |row| {
            (
                row.string(0).unwrap_or_default(),
                row.int(1) == Some(1),
                row.num(2).unwrap_or(0.0),
            )
        },
    )
}

fn to_pair(rows: Vec<(bool, f64)>) -> Pair {
    let mut pair = Pair::default();
    for (is_current, consumed) in rows {
        if is_current {
            pair.curr = consumed;
        } else {
            pair.prev = consumed;
        }
    }
    pair
}

/// Sets both buckets of a key's counter to nothing; rows stay, as the originals leave them. (Primary key.)
pub fn clear(
    conn: &Conn,
    key: &str,
    dimension: &str,
    current: f64,
    now: f64,
) -> Result<(), SqlError> {
    conn.execute(
        "UPDATE quota_consumption SET consumed = 0, updated_at = ?5 WHERE api_key_id = ?1 AND dimension_key = ?2 \
         AND bucket_index IN (?3, ?4) AND consumed <> 0",
        &[
            Param::Text(key),
            Param::Text(dimension),
            Param::Num(current),
            Param::Num(current - 1.0),
            Param::Num(now),
        ],
    )?;
    Ok(())
}

/// Rows of a pool, newest first. The pool id is matched as the host matches it: by LIKE, so ASCII letters in any case.
/// (Index on `updated_at`, backwards.)
pub fn list_for_pool(
    conn: &Conn,
    pool_id: &str,
    limit: f64,
) -> Result<Vec<ConsumptionRow>, SqlError> {
    let mut pattern = String::with_capacity(pool_id.len() + 2);
    for letter in pool_id.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push_str(":%");
    conn.query(
        "SELECT api_key_id, dimension_key, bucket_index, consumed, updated_at FROM quota_consumption \
         WHERE dimension_key LIKE ?1 ESCAPE '\\' ORDER BY updated_at DESC, rowid DESC LIMIT ?2",
        &[Param::Text(&pattern), Param::Num(limit)],
        |row| ConsumptionRow {
            api_key_id: row.string(0).unwrap_or_default(),
            dimension_key: row.string(1).unwrap_or_default(),
            bucket_index: row.num(2).unwrap_or(0.0),
            consumed: row.num(3).unwrap_or(0.0),
            updated_at: row.num(4).unwrap_or(0.0),
        },
    )
}

/// Deletes every bucket last written before `cutoff` (epoch ms); how many. (Index on `updated_at`.)
pub fn delete_older_than(conn: &Conn, cutoff: f64) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM quota_consumption WHERE updated_at < ?1",
        &[Param::Num(cutoff)],
    )
}

/// As [`delete_older_than`], but keeps buckets that still count: the current and the previous one of every window, since
/// a month's previous bucket is far older than any sensible retention. (Index on `updated_at`.)
pub fn delete_spent(conn: &Conn, cutoff: f64, now: f64) -> Result<u64, SqlError> {
    let previous = |name: &str| {
        let window = WINDOWS
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(f64::NAN, |(_, ms)| *ms);
        Param::Num(bucket_index(now, window) - 1.0)
    };
    conn.execute(
        "DELETE FROM quota_consumption WHERE updated_at < ?1 AND bucket_index < CASE \
         WHEN dimension_key LIKE '%:hourly' THEN ?2 WHEN dimension_key LIKE '%:5h' THEN ?3 \
         WHEN dimension_key LIKE '%:daily' THEN ?4 WHEN dimension_key LIKE '%:weekly' THEN ?5 \
         WHEN dimension_key LIKE '%:monthly' THEN ?6 ELSE bucket_index + 1 END",
        &[
            Param::Num(cutoff),
            previous("hourly"),
            previous("5h"),
            previous("daily"),
            previous("weekly"),
            previous("monthly"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::share_schema;
    use super::*;
    use crate::core::share::sum::CompensatedSum;

    fn conn() -> Conn {
        let conn = Conn::open_memory().unwrap();
        share_schema::ensure(&conn).unwrap();
        conn
    }

    #[test]
    fn buckets_add_up_and_pairs_find_their_place() {
        let conn = conn();
        increment(&conn, "k", "p:usd:5h", 7.0, 0.1, 1.0).unwrap();
        increment(&conn, "k", "p:usd:5h", 7.0, 0.2, 2.0).unwrap();
        increment(&conn, "j", "p:usd:5h", 6.0, 5.0, 3.0).unwrap();
        let own = Pair {
            curr: 0.1 + 0.2,
            prev: 0.0,
        };
        assert_eq!(pair(&conn, "k", "p:usd:5h", 7.0).unwrap(), own);
        assert_eq!(
            pair(&conn, "k", "p:usd:5h", 8.0).unwrap(),
            Pair {
                curr: 0.0,
                prev: 0.1 + 0.2
            }
        );
        assert_eq!(
            dimension_totals(&conn, "p:usd:5h", 7.0).unwrap(),
            Pair { prev: 5.0, ..own }
        );
        assert_eq!(dimension_rows(&conn, "p:usd:5h", 7.0).unwrap().len(), 2);
        clear(&conn, "k", "p:usd:5h", 7.0, 4.0).unwrap();
        assert_eq!(pair(&conn, "k", "p:usd:5h", 7.0).unwrap(), Pair::default());
    }

    #[test]
    fn a_cost_that_is_no_number_is_refused() {
        let conn = conn();
        assert!(increment(&conn, "k", "p:usd:5h", 7.0, f64::NAN, 1.0).is_err());
        assert!(increment(&conn, "k", "p:usd:5h", f64::NAN, 1.0, 1.0).is_err());
    }

    #[test]
    fn collection_keeps_what_still_counts() {
        let conn = conn();
        let day = 86_400_000.0;
        let now = 100.0 * 30.0 * day;
        // Month 99 is the previous one now: spent 29 days ago, it still counts.
        increment(&conn, "k", "p:tokens:monthly", 99.0, 1.0, now - 29.0 * day).unwrap();
        increment(&conn, "k", "p:tokens:monthly", 98.0, 1.0, now - 31.0 * day).unwrap();
        increment(&conn, "k", "p:tokens:hourly", 5.0, 1.0, now - 29.0 * day).unwrap();
        increment(&conn, "k", "odd", 5.0, 1.0, now - 29.0 * day).unwrap();
        assert_eq!(delete_spent(&conn, now - 14.0 * day, now).unwrap(), 3);
        assert_eq!(
            dimension_rows(&conn, "p:tokens:monthly", 100.0)
                .unwrap()
                .len(),
            1
        );
        assert_eq!(delete_older_than(&conn, now).unwrap(), 1);
    }

    fn summed_by_sqlite(values: &[f64]) -> f64 {
        let conn = conn();
        for (key, value) in values.iter().enumerate() {
            increment(&conn, &key.to_string(), "p:usd:5h", 7.0, *value, 1.0).unwrap();
        }
        dimension_totals(&conn, "p:usd:5h", 7.0).unwrap().curr
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_sum_in_memory_equals_the_databases_to_the_last_bit(
            large in prop::collection::vec(-1e18..1e18_f64, 0..40),
            small in prop::collection::vec(0.0..1.0_f64, 0..40),
        ) {
            let values: Vec<f64> = large.into_iter().chain(small).collect();
            let ours = values.iter().copied().collect::<CompensatedSum>().total();
            prop_assert_eq!(ours.to_bits(), summed_by_sqlite(&values).to_bits());
        }
    }

    #[test]
    fn an_infinite_sum_is_infinite_in_both() {
        let values = [1.0, f64::INFINITY, 2.0];
        let ours = values.into_iter().collect::<CompensatedSum>().total();
        assert_eq!(ours.to_bits(), summed_by_sqlite(&values).to_bits());
    }
}
