//! Plans: the limits of one account. Owns the reading of stored plan text; which plan applies is the engine's question.

use serde_json::Value;

/// One limit of a plan. Unit and window stay text: a plan may name ones this version does not know.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanDimension {
    pub unit: String,
    pub window: String,
    /// NaN when the plan gives none: never enforced.
    pub limit: f64,
}

/// What a stored plan text says.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredPlan {
    /// No usable dimensions: the catalog decides.
    Empty,
    Dimensions(Vec<PlanDimension>),
    /// A text the host's own code cannot walk (it throws on it): an object with a length, a list with a hole.
    Unreadable,
}

/// Reads the JSON text of a stored plan.
#[must_use]
pub fn parse_stored(text: &str) -> StoredPlan {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return StoredPlan::Empty;
    };
    match value {
        Value::Array(items) if items.is_empty() => StoredPlan::Empty,
        Value::Array(items) => {
            if items.iter().any(Value::is_null) {
                StoredPlan::Unreadable
            } else {
                StoredPlan::Dimensions(items.iter().map(dimension).collect())
            }
        }
        // A text is walked letter by letter, and no letter has a limit.
        Value::String(text) if !text.is_empty() => StoredPlan::Dimensions(
            text.encode_utf16()
                .map(|_| dimension(&Value::Null))
                .collect(),
        ),
        Value::Object(fields) => match fields.get("length").and_then(Value::as_f64) {
            Some(length) if length > 0.0 => StoredPlan::Unreadable,
            _ => StoredPlan::Empty,
        },
        _ => StoredPlan::Empty,
    }
}

fn dimension(item: &Value) -> PlanDimension {
    let text = |name: &str| {
        item.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    PlanDimension {
        unit: text("unit"),
        window: text("window"),
        limit: item
            .get("limit")
            .and_then(Value::as_f64)
            .unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_or_empty_text_is_no_plan() {
        for text in [
            "",
            "not json",
            "[]",
            "{}",
            "null",
            "true",
            "5",
            "\"\"",
            "{\"length\":0}",
        ] {
            assert_eq!(parse_stored(text), StoredPlan::Empty, "{text}");
        }
    }

    #[test]
    fn holes_are_told_apart_from_odd_entries() {
        assert_eq!(parse_stored("[null]"), StoredPlan::Unreadable);
        assert_eq!(parse_stored("{\"length\":2}"), StoredPlan::Unreadable);
        let StoredPlan::Dimensions(dimensions) =
            parse_stored("[1,{\"unit\":\"usd\",\"window\":\"5h\",\"limit\":1e2}]")
        else {
            panic!("a list of entries is a plan")
        };
        assert!(dimensions[0].limit.is_nan());
        assert_eq!(
            dimensions[1],
            PlanDimension {
                unit: "usd".into(),
                window: "5h".into(),
                limit: 100.0
            }
        );
    }
}
