//! Plans of connections and caps of models: rows of `provider_plans` and `quota_allocation_model_caps`. Owns their SQL; the
//! text of a plan is read by the core.

use super::{Conn, Param, SqlError};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    pub connection_id: String,
    pub provider: String,
    pub dimensions_json: String,
    pub source: String,
}

/// (Primary key.)
pub fn get(conn: &Conn, connection_id: &str) -> Result<Option<PlanRow>, SqlError> {
    let mut rows = select(
        conn,
        "SELECT connection_id, provider, dimensions_json, source FROM provider_plans WHERE connection_id = ?1",
        &[Param::Text(connection_id)],
    )?;
    Ok(rows.pop())
}

/// All plans by provider, oldest first within one. (Index on `provider`.)
pub fn list(conn: &Conn) -> Result<Vec<PlanRow>, SqlError> {
    select(
        conn,
        "SELECT connection_id, provider, dimensions_json, source FROM provider_plans ORDER BY provider, rowid",
        &[],
    )
}

fn select(conn: &Conn, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<PlanRow>, SqlError> {
    let text = |value: Option<String>| value.unwrap_or_default();
    conn.query(sql, params, |row| PlanRow {
        connection_id: text(row.string(0)),
        provider: text(row.string(1)),
        dimensions_json: text(row.string(2)),
        source: text(row.string(3)),
    })
}

pub fn upsert(conn: &Conn, plan: &PlanRow, updated_at: &str) -> Result<(), SqlError> {
    conn.execute(
        "INSERT INTO provider_plans (connection_id, provider, dimensions_json, source, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (connection_id) DO UPDATE SET provider = excluded.provider, \
         dimensions_json = excluded.dimensions_json, source = excluded.source, updated_at = excluded.updated_at",
        &[
            Param::Text(&plan.connection_id),
            Param::Text(&plan.provider),
            Param::Text(&plan.dimensions_json),
            Param::Text(&plan.source),
            Param::Text(updated_at),
        ],
    )?;
    Ok(())
}

/// Whether there was one.
pub fn delete(conn: &Conn, connection_id: &str) -> Result<bool, SqlError> {
    let deleted = conn.execute(
        "DELETE FROM provider_plans WHERE connection_id = ?1",
        &[Param::Text(connection_id)],
    )?;
    Ok(deleted > 0)
}

/// The cap of one model for one key of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCap {
    pub pool_id: String,
    pub api_key_id: String,
    pub model: String,
    pub cap_value: f64,
    pub cap_unit: String,
}

/// (Primary key.)
pub fn get_model_cap(
    conn: &Conn,
    pool_id: &str,
    key: &str,
    model: &str,
) -> Result<Option<ModelCap>, SqlError> {
    conn.query_row(
        "SELECT pool_id, api_key_id, model, cap_value, cap_unit FROM quota_allocation_model_caps \
         WHERE pool_id = ?1 AND api_key_id = ?2 AND model = ?3",
        &[Param::Text(pool_id), Param::Text(key), Param::Text(model)],
        model_cap,
    )
}

/// All caps of a key in a pool, oldest first. (Index on pool and key.)
pub fn list_model_caps(conn: &Conn, pool_id: &str, key: &str) -> Result<Vec<ModelCap>, SqlError> {
    conn.query(
        "SELECT pool_id, api_key_id, model, cap_value, cap_unit FROM quota_allocation_model_caps \
         WHERE pool_id = ?1 AND api_key_id = ?2 ORDER BY rowid",
        &[Param::Text(pool_id), Param::Text(key)],
        model_cap,
    )
}

fn model_cap(row: &super::Row<'_>) -> ModelCap {
    ModelCap {
        pool_id: row.string(0).unwrap_or_default(),
        api_key_id: row.string(1).unwrap_or_default(),
        model: row.string(2).unwrap_or_default(),
        cap_value: row.num(3).unwrap_or(0.0),
        cap_unit: row.string(4).unwrap_or_default(),
    }
}

pub fn set_model_cap(conn: &Conn, cap: &ModelCap) -> Result<(), SqlError> {
    conn.execute(
        "INSERT INTO quota_allocation_model_caps (pool_id, api_key_id, model, cap_value, cap_unit) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (pool_id, api_key_id, model) DO UPDATE SET \
         cap_value = excluded.cap_value, cap_unit = excluded.cap_unit",
        &[
            Param::Text(&cap.pool_id),
            Param::Text(&cap.api_key_id),
            Param::Text(&cap.model),
            Param::Num(cap.cap_value),
            Param::Text(&cap.cap_unit),
        ],
    )?;
    Ok(())
}

pub fn delete_model_cap(
    conn: &Conn,
    pool_id: &str,
    key: &str,
    model: &str,
) -> Result<(), SqlError> {
    conn.execute(
        "DELETE FROM quota_allocation_model_caps WHERE pool_id = ?1 AND api_key_id = ?2 AND model = ?3",
        &[Param::Text(pool_id), Param::Text(key), Param::Text(model)],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::share_schema;
    use super::*;

    #[test]
    fn plans_and_caps_are_replaced_in_place() {
        let conn = Conn::open_memory().unwrap();
        share_schema::ensure(&conn).unwrap();
        let mut plan = PlanRow {
            connection_id: "c".into(),
            provider: "kimi".into(),
            dimensions_json: "[]".into(),
            source: "manual".into(),
        };
        upsert(&conn, &plan, "now").unwrap();
        plan.source = "auto".into();
        upsert(&conn, &plan, "later").unwrap();
        assert_eq!(list(&conn).unwrap(), [plan.clone()]);
        plan.source = "guess".into();
        assert!(upsert(&conn, &plan, "later").is_err());
        assert!(delete(&conn, "c").unwrap());
        assert!(!delete(&conn, "c").unwrap());

        let cap = ModelCap {
            pool_id: "p".into(),
            api_key_id: "k".into(),
            model: "a/b".into(),
            cap_value: 2.5,
            cap_unit: "usd".into(),
        };
        set_model_cap(&conn, &cap).unwrap();
        set_model_cap(
            &conn,
            &ModelCap {
                cap_value: 3.0,
                ..cap.clone()
            },
        )
        .unwrap();
        assert_eq!(
            list_model_caps(&conn, "p", "k").unwrap()[0]
                .cap_value
                .to_bits(),
            3.0_f64.to_bits()
        );
        assert!(
            set_model_cap(
                &conn,
                &ModelCap {
                    cap_value: 0.0,
                    ..cap
                }
            )
            .is_err()
        );
        delete_model_cap(&conn, "p", "k", "a/b").unwrap();
        assert_eq!(get_model_cap(&conn, "p", "k", "a/b").unwrap(), None);
    }
}
