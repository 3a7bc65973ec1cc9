//! Which quota pools each API key of the host may use: the column `api_keys.allowed_quotas`. Owns its SQL and its form, a
//! JSON list of pool ids.

use serde_json::Value;

use super::{Conn, Param, SqlError, SqlErrorKind};

/// The key's list; what is no JSON list counts as an empty one. `None`: no such key, or a database without keys.
/// (Primary key.)
pub fn allowed(conn: &Conn, key: &str) -> Result<Option<Vec<Value>>, SqlError> {
    let text = conn.query_row(
        "SELECT allowed_quotas FROM api_keys WHERE id = ?1",
        &[Param::Text(key)],
        |row| row.string(0).unwrap_or_default(),
    );
    match text {
        Ok(text) => Ok(text.map(|text| match serde_json::from_str(&text) {
            Ok(Value::Array(pools)) => pools,
            _ => Vec::new(),
        })),
        Err(error) if error.kind() == SqlErrorKind::MissingTable => Ok(None),
        Err(error) => Err(error),
    }
}

/// (Primary key.)
pub fn set_allowed(conn: &Conn, key: &str, pools: Vec<Value>) -> Result<(), SqlError> {
    let list = Value::Array(pools).to_string();
    conn.execute(
        "UPDATE api_keys SET allowed_quotas = ?2 WHERE id = ?1",
        &[Param::Text(key), Param::Text(&list)],
    )?;
    Ok(())
}
