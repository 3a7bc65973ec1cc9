//! Queries on the host's own tables, `models` and `api_keys`. Of `models` only the four limit columns are ever written.
//!
//! Columns that an older host lacks are read through `(SELECT column FROM table …) FROM (SELECT NULL AS column)`: SQLite
//! looks the name up in the inner table first and finds the outer NULL where the column is missing. One statement then
//! serves every schema, also across a migration.

use serde_json::Value;

use super::connection::Conn;
use super::error::SqlError;
use super::statement::Param::{Num, Text};
use crate::core::learning::LimitKind;
use crate::providers::caps::AccountCap;

/// A key, as far as the window snapshot needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRow {
    pub id: f64,
    pub platform: String,
    pub base_url: Option<String>,
    pub eligible: bool,
    pub model_scope: Option<String>,
}

/// Every key, in one read of the table whatever columns it has.
pub fn keys(conn: &Conn) -> Result<Vec<KeyRow>, SqlError> {
    type Entry = (Value, Value, Value, Value, Value);
    let json = conn.query_row(
        "SELECT (SELECT json_group_array(json_array( \
             id, platform, base_url, enabled = 1 AND status IN ('healthy', 'unknown'), model_scope_json)) \
           FROM api_keys) \
         FROM (SELECT NULL AS model_scope_json)",
        &[],
        |row| row.string(0),
    )?;
    let entries: Vec<Entry> =
        serde_json::from_str(&json.flatten().unwrap_or_default()).unwrap_or_default();
    let text = |value: Value| value.as_str().map(str::to_owned);
    Ok(entries
        .into_iter()
        .map(|(id, platform, base_url, eligible, model_scope)| KeyRow {
            id: id.as_f64().unwrap_or(f64::NAN),
            platform: text(platform).unwrap_or_default(),
            base_url: text(base_url),
            eligible: eligible.as_i64() == Some(1),
            model_scope: text(model_scope),
        })
        .collect())
}

/// The endpoint of a key; `None` when there is no such key or it states none.
pub fn base_url(conn: &Conn, key: f64) -> Result<Option<String>, SqlError> {
    Ok(conn
        .query_row(
            "SELECT base_url FROM api_keys WHERE id = ?",
            &[Num(key)],
            |row| row.string(0),
        )?
        .flatten())
}

/// An account's own cap, where its key row states one.
pub fn key_cap(conn: &Conn, key: f64, cap: AccountCap) -> Result<Option<f64>, SqlError> {
    let sql = match cap {
        AccountCap::MinuteRequests => {
            "SELECT (SELECT provider_rpm_limit FROM api_keys WHERE id = ?) FROM (SELECT NULL AS provider_rpm_limit)"
        }
        AccountCap::DailyRequests => {
            "SELECT (SELECT provider_rpd_limit FROM api_keys WHERE id = ?) FROM (SELECT NULL AS provider_rpd_limit)"
        }
        AccountCap::DailyTokens => {
            "SELECT (SELECT provider_tpd_limit FROM api_keys WHERE id = ?) FROM (SELECT NULL AS provider_tpd_limit)"
        }
    };
    Ok(conn
        .query_row(sql, &[Num(key)], |row| row.number_only(0))?
        .flatten())
}

/// A budget label and a daily token limit.
pub type BillingFacts = (Option<String>, Option<f64>);

/// What a model's first row says about billing: its budget label and its own daily token limit.
pub fn model_billing(
    conn: &Conn,
    platform: &str,
    model: &str,
) -> Result<Option<BillingFacts>, SqlError> {
    conn.query_row(
        "SELECT monthly_token_budget, tpd_limit FROM models WHERE platform = ? AND model_id = ? ORDER BY id LIMIT 1",
        &[Text(platform), Text(model)],
        |row| (row.string(0), row.num(1)),
    )
}

/// Writes a learned limit where none is known or a larger one; whether a row changed.
pub fn lower_limit(
    conn: &Conn,
    model_id: f64,
    kind: LimitKind,
    limit: f64,
) -> Result<bool, SqlError> {
    let sql = match kind {
        LimitKind::Rpm => {
            "UPDATE models SET rpm_limit = ?1 WHERE id = ?2 AND (rpm_limit IS NULL OR rpm_limit > ?1)"
        }
        LimitKind::Rpd => {
            "UPDATE models SET rpd_limit = ?1 WHERE id = ?2 AND (rpd_limit IS NULL OR rpd_limit > ?1)"
        }
        LimitKind::Tpm => {
            "UPDATE models SET tpm_limit = ?1 WHERE id = ?2 AND (tpm_limit IS NULL OR tpm_limit > ?1)"
        }
        LimitKind::Tpd => {
            "UPDATE models SET tpd_limit = ?1 WHERE id = ?2 AND (tpd_limit IS NULL OR tpd_limit > ?1)"
        }
    };
    Ok(conn.execute(sql, &[Num(limit), Num(model_id)])? > 0)
}
