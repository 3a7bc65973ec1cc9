//! A route: platform, model and key.

use super::Compat;

/// A route by its names, borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteName<'a> {
    pub platform: &'a str,
    pub model: &'a str,
    /// A JavaScript number: hosts use row ids.
    pub key: f64,
}

impl RouteName<'_> {
    /// The key of in-memory maps. The recorded one joins with colons, so that (`a`, `b:c`) and (`a:b`, `c`) share an
    /// entry; the corrected one cannot collide.
    #[must_use]
    pub fn memory_key(&self, compat: Compat) -> String {
        let Self {
            platform,
            model,
            key,
        } = *self;
        // -0 and 0 are one key in JavaScript.
        let key = key + 0.0;
        match compat {
            Compat::Recorded => format!("{platform}:{model}:{key}"),
            Compat::Corrected => format!("{}:{platform}{model}:{key}", platform.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recorded_keys_collide() {
        let first = RouteName {
            platform: "q",
            model: "a:1",
            key: 2.0,
        };
        let second = RouteName {
            platform: "q:a",
            model: "1",
            key: 2.0,
        };
        assert_eq!(
            first.memory_key(Compat::Recorded),
            second.memory_key(Compat::Recorded)
        );
        assert_ne!(
            first.memory_key(Compat::Corrected),
            second.memory_key(Compat::Corrected)
        );
    }
}
