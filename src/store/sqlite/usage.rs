//! Queries on `rate_limit_usage`: one row per request or token count.
//!
//! All but the prune and the grouped scan are served by `idx_rate_limit_usage_lookup(platform, model_id, key_id, kind,
//! created_at_ms)`; the account-wide ones by its first column.

use super::connection::Conn;
use super::error::{SqlError, SqlErrorKind};
use super::statement::Param::{Num, Text};
use crate::core::route::RouteName;

/// What a usage row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UsageKind {
    Request,
    Tokens,
}

impl UsageKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Tokens => "tokens",
        }
    }
}

pub fn insert(
    conn: &Conn,
    route: &RouteName<'_>,
    kind: UsageKind,
    tokens: f64,
    at: f64,
) -> Result<(), SqlError> {
    conn.execute(
        "INSERT INTO rate_limit_usage (platform, model_id, key_id, kind, tokens, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)",
        &[Text(route.platform), Text(route.model), Num(route.key), Text(kind.as_str()), Num(tokens), Num(at)],
    )
    .map(drop)
}

/// Deletes what no window can see any more. A scan of the table: callers space it out.
pub fn prune(conn: &Conn, until: f64) -> Result<u64, SqlError> {
    conn.execute(
        "DELETE FROM rate_limit_usage WHERE created_at_ms <= ?",
        &[Num(until)],
    )
}

/// Requests of a route after an instant.
pub fn requests(conn: &Conn, route: &RouteName<'_>, after: f64) -> Result<f64, SqlError> {
    number(
        conn,
        "SELECT COUNT(*) FROM rate_limit_usage \
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'request' AND created_at_ms > ?",
        &[
            Text(route.platform),
            Text(route.model),
            Num(route.key),
            Num(after),
        ],
    )
}

/// Tokens of a route after an instant.
pub fn tokens(conn: &Conn, route: &RouteName<'_>, after: f64) -> Result<f64, SqlError> {
    number(
        conn,
        "SELECT COALESCE(SUM(tokens), 0) FROM rate_limit_usage \
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ?",
        &[
            Text(route.platform),
            Text(route.model),
            Num(route.key),
            Num(after),
        ],
    )
}

/// As [`tokens`], as a double: for sums that leave the 64-bit range.
pub fn tokens_saturating(conn: &Conn, route: &RouteName<'_>, after: f64) -> Result<f64, SqlError> {
    match tokens(conn, route, after) {
        Err(error) if error.kind() == SqlErrorKind::Overflow => number(
            conn,
            "SELECT TOTAL(tokens) FROM rate_limit_usage \
             WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ?",
            &[
                Text(route.platform),
                Text(route.model),
                Num(route.key),
                Num(after),
            ],
        ),
        outcome => outcome,
    }
}

/// Instant and tokens of a route's events after an instant, ascending.
pub fn events(
    conn: &Conn,
    route: &RouteName<'_>,
    kind: UsageKind,
    after: f64,
) -> Result<Vec<(f64, f64)>, SqlError> {
    conn.query(
        "SELECT created_at_ms, tokens FROM rate_limit_usage \
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = ? AND created_at_ms > ? ORDER BY created_at_ms",
        &[Text(route.platform), Text(route.model), Num(route.key), Text(kind.as_str()), Num(after)],
        |row| (row.num(0).unwrap_or(f64::NAN), row.num(1).unwrap_or(0.0)),
    )
}

/// Instants of an account's requests after an instant; the second numbers mean nothing.
pub fn account_request_times(
    conn: &Conn,
    platform: &str,
    key: f64,
    after: f64,
) -> Result<Vec<(f64, f64)>, SqlError> {
    conn.query(
        "SELECT created_at_ms FROM rate_limit_usage \
         WHERE platform = ? AND key_id = ? AND kind = 'request' AND created_at_ms > ?",
        &[Text(platform), Num(key), Num(after)],
        |row| (row.num(0).unwrap_or(f64::NAN), 0.0),
    )
}

/// Requests of a platform and key over all models after an instant.
pub fn account_requests(
    conn: &Conn,
    platform: &str,
    key: f64,
    after: f64,
) -> Result<f64, SqlError> {
    number(
        conn,
        "SELECT COUNT(*) FROM rate_limit_usage \
         WHERE platform = ? AND key_id = ? AND kind = 'request' AND created_at_ms > ?",
        &[Text(platform), Num(key), Num(after)],
    )
}

/// Tokens of one model of an account, with what its row says about billing.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTokens {
    pub model: String,
    pub tokens: f64,
    pub budget_label: Option<String>,
    pub tpd_limit: Option<f64>,
}

/// Tokens of a platform and key per model after an instant. A model offered on several endpoints has several rows in
/// `models`: its tokens count once, and its first row speaks for it.
pub fn account_tokens(
    conn: &Conn,
    platform: &str,
    key: f64,
    after: f64,
) -> Result<Vec<ModelTokens>, SqlError> {
    let params = [Text(platform), Num(key), Num(after)];
    let exact = model_tokens(
        conn,
        "SELECT u.model_id, u.tokens, m.monthly_token_budget, m.tpd_limit FROM ( \
           SELECT platform, model_id, SUM(tokens) AS tokens FROM rate_limit_usage \
           WHERE platform = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ? GROUP BY model_id) AS u \
         LEFT JOIN models AS m ON m.id = ( \
           SELECT MIN(id) FROM models WHERE platform = u.platform AND model_id = u.model_id)",
        &params,
    );
    match exact {
        Err(error) if error.kind() == SqlErrorKind::Overflow => model_tokens(
            conn,
            "SELECT u.model_id, u.tokens, m.monthly_token_budget, m.tpd_limit FROM ( \
               SELECT platform, model_id, TOTAL(tokens) AS tokens FROM rate_limit_usage \
               WHERE platform = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ? GROUP BY model_id) AS u \
             LEFT JOIN models AS m ON m.id = ( \
               SELECT MIN(id) FROM models WHERE platform = u.platform AND model_id = u.model_id)",
            &params,
        ),
        outcome => outcome,
    }
}

/// As [`account_tokens`] without the host's `models` table.
pub fn account_tokens_alone(
    conn: &Conn,
    platform: &str,
    key: f64,
    after: f64,
) -> Result<Vec<ModelTokens>, SqlError> {
    model_tokens(
        conn,
        "SELECT model_id, TOTAL(tokens), NULL, NULL FROM rate_limit_usage \
         WHERE platform = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ? GROUP BY model_id",
        &[Text(platform), Num(key), Num(after)],
    )
}

/// The recorded sum: joined with every row of the model, so that tokens multiply with the number of endpoints.
pub fn account_tokens_recorded(
    conn: &Conn,
    platform: &str,
    key: f64,
    after: f64,
) -> Result<Vec<ModelTokens>, SqlError> {
    model_tokens(
        conn,
        "SELECT u.model_id, SUM(u.tokens), m.monthly_token_budget, m.tpd_limit FROM rate_limit_usage AS u \
         LEFT JOIN models AS m ON m.platform = u.platform AND m.model_id = u.model_id \
         WHERE u.platform = ? AND u.key_id = ? AND u.kind = 'tokens' AND u.created_at_ms > ? GROUP BY u.model_id",
        &[Text(platform), Num(key), Num(after)],
    )
}

fn model_tokens(
    conn: &Conn,
    sql: &'static str,
    params: &[super::Param<'_>],
) -> Result<Vec<ModelTokens>, SqlError> {
    conn.query(sql, params, |row| ModelTokens {
        model: row.string(0).unwrap_or_default(),
        tokens: row.num(1).unwrap_or(0.0),
        budget_label: row.string(2),
        tpd_limit: row.num(3),
    })
}

/// Usage of one route in both windows.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteUsage {
    pub platform: String,
    pub model: String,
    pub key: f64,
    pub minute_requests: f64,
    pub day_requests: f64,
    pub minute_tokens: f64,
    pub day_tokens: f64,
}

/// Usage of every route, in one scan of the table. Rows whose names no question can ask for (a blob is no text) are left out.
pub fn by_route(
    conn: &Conn,
    minute_after: f64,
    day_after: f64,
) -> Result<Vec<RouteUsage>, SqlError> {
    let rows = conn.query(
        "SELECT platform, model_id, key_id, \
           TOTAL(kind = 'request' AND created_at_ms > ?1), TOTAL(kind = 'request' AND created_at_ms > ?2), \
           TOTAL(CASE WHEN kind = 'tokens' AND created_at_ms > ?1 THEN tokens END), \
           TOTAL(CASE WHEN kind = 'tokens' AND created_at_ms > ?2 THEN tokens END) \
         FROM rate_limit_usage WHERE created_at_ms > MIN(?1, ?2) GROUP BY platform, model_id, key_id",
        &[Num(minute_after), Num(day_after)],
        |row| {
            Some(RouteUsage {
                platform: row.text_only(0)?.to_owned(),
                model: row.text_only(1)?.to_owned(),
                key: row.number_only(2)?,
                minute_requests: row.num(3).unwrap_or(0.0),
                day_requests: row.num(4).unwrap_or(0.0),
                minute_tokens: row.num(5).unwrap_or(0.0),
                day_tokens: row.num(6).unwrap_or(0.0),
            })
        },
    )?;
    Ok(rows.into_iter().flatten().collect())
}

fn number(conn: &Conn, sql: &'static str, params: &[super::Param<'_>]) -> Result<f64, SqlError> {
    Ok(conn
        .query_row(sql, params, |row| row.num(0))?
        .flatten()
        .unwrap_or(0.0))
}
