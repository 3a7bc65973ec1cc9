//! Reading the tables into the index. Which rows it cannot hold is found out here; whether a table may be held at all is not.

use super::super::connection::Conn;
use super::super::error::SqlError;
use super::super::statement::Param::{Num, Text};
use super::super::statement::Row;
use super::series::{MAX_TOKENS, Series, is_whole_instant};
use super::{RouteName, RouteUsage};

/// Usage of one route after an instant: two ranges of `idx_rate_limit_usage_lookup`, the first read from the index alone.
pub fn route(conn: &Conn, name: &RouteName<'_>, floor: f64) -> Result<RouteUsage, SqlError> {
    let mut odd = false;
    let params = [
        Text(name.platform),
        Text(name.model),
        Num(name.key),
        Num(floor),
    ];
    let requests = conn.query(
        "SELECT created_at_ms FROM rate_limit_usage \
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'request' AND created_at_ms > ? \
         ORDER BY created_at_ms",
        &params,
        |row| (instant(row, 0, &mut odd), 0),
    )?;
    let tokens = conn.query(
        "SELECT created_at_ms, tokens, typeof(tokens) = 'integer' FROM rate_limit_usage \
         WHERE platform = ? AND model_id = ? AND key_id = ? AND kind = 'tokens' AND created_at_ms > ? \
         ORDER BY created_at_ms",
        &params,
        |row| (instant(row, 0, &mut odd), amount(row, 1, 2, &mut odd)),
    )?;
    Ok(usage(requests, tokens, odd))
}

/// The models of an account that have rows after an instant; `None` when one cannot be named by a text.
pub fn models_of_account(
    conn: &Conn,
    platform: &str,
    key: f64,
    floor: f64,
) -> Result<Option<Vec<String>>, SqlError> {
    let models = conn.query(
        "SELECT DISTINCT model_id FROM rate_limit_usage WHERE platform = ? AND key_id = ? AND created_at_ms > ?",
        &[Text(platform), Num(key), Num(floor)],
        |row| row.text_only(0).map(str::to_owned),
    )?;
    Ok(models.into_iter().collect())
}

/// Keys beyond this are not told apart by doubles.
const MAX_KEY: f64 = 9_007_199_254_740_992.0;

/// Usage of every route after an instant: one scan in the order of `idx_rate_limit_usage_lookup`. `false` when a row
/// belongs to no route that can be named.
pub fn all(
    conn: &Conn,
    floor: f64,
    mut found: impl FnMut(RouteName<'_>, RouteUsage),
) -> Result<bool, SqlError> {
    struct Group {
        platform: String,
        model: String,
        key: f64,
        requests: Vec<(i64, i64)>,
        tokens: Vec<(i64, i64)>,
        odd: bool,
    }
    let mut finish = |group: Group| {
        let name = RouteName {
            platform: &group.platform,
            model: &group.model,
            key: group.key,
        };
        found(name, usage(group.requests, group.tokens, group.odd));
    };
    let mut open: Option<Group> = None;
    let mut all_named = true;
    conn.query(
        "SELECT platform, model_id, key_id, kind, created_at_ms, tokens, typeof(tokens) = 'integer' \
         FROM rate_limit_usage WHERE created_at_ms > ? ORDER BY platform, model_id, key_id, kind, created_at_ms",
        &[Num(floor)],
        |row| {
            let (Some(platform), Some(model), Some(key)) =
                (row.text_only(0), row.text_only(1), row.number_only(2).filter(|key| key.abs() < MAX_KEY))
            else {
                all_named = false;
                return;
            };
            let same = open.as_ref().is_some_and(|group| {
                group.platform == platform && group.model == model && group.key.to_bits() == key.to_bits()
            });
            if !same {
                let (platform, model) = (platform.to_owned(), model.to_owned());
                let next = Group { platform, model, key, requests: Vec::new(), tokens: Vec::new(), odd: false };
                if let Some(group) = open.replace(next) {
                    finish(group);
                }
            }
            let Some(group) = open.as_mut() else { return };
            let at = instant(row, 4, &mut group.odd);
            match row.text(3) {
                Some("request") => group.requests.push((at, 0)),
                Some("tokens") => {
                    let amount = amount(row, 5, 6, &mut group.odd);
                    group.tokens.push((at, amount));
                }
                _ => {}
            }
        },
    )?;
    if let Some(group) = open {
        finish(group);
    }
    Ok(all_named)
}

fn usage(requests: Vec<(i64, i64)>, tokens: Vec<(i64, i64)>, odd: bool) -> RouteUsage {
    let (requests, tokens) = (Series::new(requests, false), Series::new(tokens, true));
    let odd = odd || requests.is_too_long() || tokens.is_too_long();
    RouteUsage {
        odd,
        requests,
        tokens,
        ..RouteUsage::empty(0, 0, 0.0, 0.0)
    }
}

fn instant(row: &Row<'_>, column: usize, odd: &mut bool) -> i64 {
    let whole = row.number_only(column).is_some_and(is_whole_instant);
    *odd |= !whole;
    row.int(column).unwrap_or(0)
}

fn amount(row: &Row<'_>, column: usize, is_integer: usize, odd: &mut bool) -> i64 {
    let tokens = row.int(column).unwrap_or(0);
    *odd |= row.int(is_integer) != Some(1) || tokens.unsigned_abs() > MAX_TOKENS.unsigned_abs();
    tokens
}
