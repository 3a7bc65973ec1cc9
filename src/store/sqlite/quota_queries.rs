//! SQL of the provider-quota tables: `provider_quota_state` (what is known) and `provider_quota_observations` (what was seen).
//! Rows in, rows out: what a row means is `core::quota_observation`'s business.

use super::{Conn, Param, Row, SqlError};
use crate::core::quota_observation::Known;

/// The primary key of a state.
#[derive(Clone, Copy, Debug)]
pub struct StateKey<'a> {
    pub platform: &'a str,
    pub key_id: f64,
    pub pool: &'a str,
    pub metric: &'a str,
}

/// The fields of an observation that a state does not keep.
#[derive(Clone, Copy, Debug)]
pub struct ObservationRow<'a> {
    pub id: &'a str,
    pub provider_account_id: Option<&'a str>,
    pub model_id: Option<&'a str>,
    pub status_code: Option<f64>,
    pub retry_after_ms: Option<f64>,
    pub raw_json: Option<&'a str>,
    pub endpoint: Option<&'a str>,
    pub observed_at: &'a str,
}

/// A state with the newest observation behind it and the label of its key.
#[derive(Clone, Debug)]
pub struct StateRow {
    pub platform: String,
    pub key_id: f64,
    pub key_label: Option<String>,
    pub pool: String,
    pub metric: String,
    pub known: Known,
    pub observed_at: Option<String>,
    pub updated_at: Option<String>,
    pub provider_account_id: Option<String>,
    pub model_id: Option<String>,
    pub endpoint: Option<String>,
    pub status_code: Option<f64>,
    pub retry_after_ms: Option<f64>,
    pub raw_json: Option<String>,
    pub created_at: Option<String>,
}

/// What a router weighs of a state.
#[derive(Clone, Copy, Debug)]
pub struct HeadroomRow {
    pub key_id: f64,
    pub limit: f64,
    pub remaining: f64,
    /// Its reset is in the past.
    pub renewed: bool,
}

fn optional_text(value: Option<&str>) -> Param<'_> {
    value.map_or(Param::Null, Param::Text)
}

fn optional_number<'a>(value: Option<f64>) -> Param<'a> {
    value.map_or(Param::Null, Param::Num)
}

fn known(row: &Row<'_>, first: usize) -> Known {
    Known {
        limit: row.num(first),
        remaining: row.num(first + 1),
        reset_at: row.string(first + 2),
        reset_strategy: row.string(first + 3).unwrap_or_default(),
        source: row.string(first + 4).unwrap_or_default(),
        confidence: row.num(first + 5).unwrap_or(0.0),
        notes: row.string(first + 6),
    }
}

/// What is known of one quota. Primary key.
pub fn state(conn: &Conn, key: StateKey<'_>) -> Result<Option<Known>, SqlError> {
    const SQL: &str = "
        SELECT limit_value, remaining_value, reset_at, reset_strategy, source, confidence, notes
        FROM provider_quota_state
        WHERE platform = ?1 AND key_id = ?2 AND quota_pool_key = ?3 AND metric = ?4";
    let StateKey {
        platform,
        key_id,
        pool,
        metric,
    } = key;
    let params = [
        Param::Text(platform),
        Param::Num(key_id),
        Param::Text(pool),
        Param::Text(metric),
    ];
    conn.query_row(SQL, &params, |row| known(row, 0))
}

/// Writes what is known of one quota, seen at `observed_at`. Primary key.
pub fn put_state(
    conn: &Conn,
    key: StateKey<'_>,
    known: &Known,
    observed_at: &str,
) -> Result<(), SqlError> {
    const SQL: &str = "
        INSERT INTO provider_quota_state (platform, key_id, quota_pool_key, metric, limit_value, remaining_value, reset_at,
            reset_strategy, source, confidence, notes, observed_at, updated_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)
        ON CONFLICT (platform, key_id, quota_pool_key, metric) DO UPDATE SET
            limit_value = excluded.limit_value, remaining_value = excluded.remaining_value, reset_at = excluded.reset_at,
            reset_strategy = excluded.reset_strategy, source = excluded.source, confidence = excluded.confidence,
            notes = excluded.notes, observed_at = excluded.observed_at, updated_at = excluded.updated_at";
    let params = [
        Param::Text(key.platform),
        Param::Num(key.key_id),
        Param::Text(key.pool),
        Param::Text(key.metric),
        optional_number(known.limit),
        optional_number(known.remaining),
        optional_text(known.reset_at.as_deref()),
        Param::Text(&known.reset_strategy),
        Param::Text(&known.source),
        Param::Num(known.confidence),
        optional_text(known.notes.as_deref()),
        Param::Text(observed_at),
    ];
    conn.execute(SQL, &params).map(|_| ())
}

/// Appends one observation.
pub fn append_observation(
    conn: &Conn,
    key: StateKey<'_>,
    seen: &Known,
    row: ObservationRow<'_>,
) -> Result<(), SqlError> {
    const SQL: &str = "
        INSERT INTO provider_quota_observations (id, platform, key_id, provider_account_id, model_id, quota_pool_key, metric,
            status_code, limit_value, remaining_value, reset_at, retry_after_ms, reset_strategy, source, confidence, notes,
            raw_json, endpoint, observed_at, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?19)";
    let params = [
        Param::Text(row.id),
        Param::Text(key.platform),
        Param::Num(key.key_id),
        optional_text(row.provider_account_id),
        optional_text(row.model_id),
        Param::Text(key.pool),
        Param::Text(key.metric),
        optional_number(row.status_code),
        optional_number(seen.limit),
        optional_number(seen.remaining),
        optional_text(seen.reset_at.as_deref()),
        optional_number(row.retry_after_ms),
        Param::Text(&seen.reset_strategy),
        Param::Text(&seen.source),
        Param::Num(seen.confidence),
        optional_text(seen.notes.as_deref()),
        optional_text(row.raw_json),
        optional_text(row.endpoint),
        Param::Text(row.observed_at),
    ];
    conn.execute(SQL, &params).map(|_| ())
}

/// Sets quotas whose reset has passed back to full. `now` is a time text of SQLite: an instant, or `now` for SQLite's own
/// clock. A reset that SQLite cannot read never passes. Index: `idx_provider_quota_state_reset_at`.
pub fn renew_expired(conn: &Conn, now: &str) -> Result<u64, SqlError> {
    const SQL: &str = "
        UPDATE provider_quota_state SET remaining_value = limit_value, reset_at = NULL, updated_at = datetime(?1)
        WHERE reset_at IS NOT NULL AND julianday(reset_at) < julianday(?1)";
    conn.execute(SQL, &[Param::Text(now)])
}

/// Every state, ordered by its key, with its newest observation (of several at one time the first written) and the label of
/// the host's key. Indexes: both primary keys, `idx_provider_quota_observations_platform`.
pub fn states(conn: &Conn) -> Result<Vec<StateRow>, SqlError> {
    const SQL: &str = "
        SELECT s.platform, s.key_id, k.label, s.quota_pool_key, s.metric, s.limit_value, s.remaining_value, s.reset_at,
            s.reset_strategy, s.source, s.confidence, s.notes, s.observed_at, s.updated_at, o.provider_account_id, o.model_id,
            o.endpoint, o.status_code, o.retry_after_ms, o.raw_json, o.created_at
        FROM provider_quota_state s
        LEFT JOIN api_keys k ON k.id = s.key_id
        LEFT JOIN provider_quota_observations o ON o.rowid = (
            SELECT n.rowid FROM provider_quota_observations n
            WHERE n.platform = s.platform AND n.key_id = s.key_id AND n.quota_pool_key = s.quota_pool_key
                AND n.metric = s.metric
            ORDER BY n.observed_at DESC, n.rowid LIMIT 1)
        ORDER BY s.platform, s.key_id, s.quota_pool_key, s.metric";
    conn.query(SQL, &[], |row| StateRow {
        platform: row.string(0).unwrap_or_default(),
        key_id: row.num(1).unwrap_or(0.0),
        key_label: row.string(2),
        pool: row.string(3).unwrap_or_default(),
        metric: row.string(4).unwrap_or_default(),
        known: known(row, 5),
        observed_at: row.string(12),
        updated_at: row.string(13),
        provider_account_id: row.string(14),
        model_id: row.string(15),
        endpoint: row.string(16),
        status_code: row.num(17),
        retry_after_ms: row.num(18),
        raw_json: row.string(19),
        created_at: row.string(20),
    })
}

/// The quotas of a platform that a router can weigh: trusted at least `confidence`, with a limit and a remainder. `now` as
/// for [`renew_expired`]. Primary key (its first column).
pub fn headroom_rows(
    conn: &Conn,
    platform: &str,
    confidence: f64,
    now: &str,
) -> Result<Vec<HeadroomRow>, SqlError> {
    const SQL: &str = "
        SELECT key_id, limit_value, remaining_value, COALESCE(julianday(reset_at) < julianday(?3), 0)
        FROM provider_quota_state
        WHERE platform = ?1 AND confidence >= ?2 AND limit_value > 0 AND remaining_value IS NOT NULL
        ORDER BY key_id";
    let params = [
        Param::Text(platform),
        Param::Num(confidence),
        Param::Text(now),
    ];
    conn.query(SQL, &params, |row| HeadroomRow {
        key_id: row.num(0).unwrap_or(0.0),
        limit: row.num(1).unwrap_or(0.0),
        remaining: row.num(2).unwrap_or(0.0),
        renewed: row.int(3) == Some(1),
    })
}
