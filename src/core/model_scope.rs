//! Which models a key may serve: the host's `api_keys.model_scope_json`. Owns the reading of that column, nothing else.

/// The models that a key admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelScope {
    All,
    /// Never empty: a list without a usable id restricts nothing.
    Only(Vec<Box<str>>),
}

impl ModelScope {
    /// A JSON array of model ids. Null, empty, malformed, or anything but an array admits every model: a scope that
    /// cannot be read must not take a key out of service. Entries that are no text, or empty, are passed over.
    #[must_use]
    pub fn parse(json: Option<&str>) -> Self {
        let Some(serde_json::Value::Array(entries)) =
            json.and_then(|text| serde_json::from_str(text).ok())
        else {
            return Self::All;
        };
        let ids: Vec<Box<str>> = entries
            .into_iter()
            .filter_map(|entry| match entry {
                serde_json::Value::String(id) if !id.is_empty() => Some(id.into_boxed_str()),
                _ => None,
            })
            .collect();
        if ids.is_empty() {
            Self::All
        } else {
            Self::Only(ids)
        }
    }

    /// Exact comparison, upper and lower case apart.
    #[must_use]
    pub fn admits(&self, model_id: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.iter().any(|id| &**id == model_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ModelScope;

    #[test]
    fn unreadable_scopes_admit_all() {
        for json in [
            None,
            Some(""),
            Some("null"),
            Some("{}"),
            Some("0"),
            Some("oops"),
            Some("\"only\""),
            Some("[\"only\""),
            Some("[]"),
            Some("[1,2]"),
            Some("[\"\"]"),
            Some("[null]"),
        ] {
            assert_eq!(ModelScope::parse(json), ModelScope::All, "{json:?}");
        }
    }

    #[test]
    fn a_list_admits_its_ids_only() {
        let scope = ModelScope::parse(Some("  [\"名前:7b\", \"\", 5, \"m\"] "));
        assert!(scope.admits("m") && scope.admits("名前:7b"));
        assert!(!scope.admits("M") && !scope.admits("") && !scope.admits("5"));
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        assert_eq!(
            ModelScope::parse(Some(&"[".repeat(100_000))),
            ModelScope::All
        );
    }
}
