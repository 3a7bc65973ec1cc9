//! Names of the virtual models a pool offers: `qtSd/<slug>/<provider>/<model>`. Owns how they are built and read.

/// Every name of a shared model begins with this.
pub const PREFIX: &str = "qtSd/";

/// A group's or pool's name as part of a model name: its ASCII letters (lower case) and digits, `pool` when none is left.
#[must_use]
pub fn slug(name: &str) -> String {
    let kept: String = name
        .to_lowercase()
        .chars()
        .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        .collect();
    if kept.is_empty() {
        "pool".to_owned()
    } else {
        kept
    }
}

#[must_use]
pub fn model_name(group: &str, provider: &str, model: &str) -> String {
    format!("{PREFIX}{}/{provider}/{model}", slug(group))
}

#[must_use]
pub fn is_model_name(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// The parts of a shared model's name: slug, provider, model (which may contain slashes). None of them is empty.
#[must_use]
pub fn parse_model_name(text: &str) -> Option<[&str; 3]> {
    let mut parts = text.strip_prefix(PREFIX)?.splitn(3, '/');
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    parts.iter().all(|part| !part.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{is_model_name, model_name, parse_model_name, slug};

    #[test]
    fn slugs() {
        let cases = [
            ("Pool Principal", "poolprincipal"),
            ("", "pool"),
            ("---", "pool"),
            ("\u{dc}n\u{ef}code", "ncode"),
            ("\u{130}stanbul", "istanbul"),
            ("\u{212a}elvin", "kelvin"),
            ("UPPER-lower_9", "upperlower9"),
            ("\u{ff21}\u{ff22}", "pool"),
        ];
        for (name, expected) in cases {
            assert_eq!(slug(name), expected, "{name:?}");
        }
    }

    #[test]
    fn parsing_needs_three_parts() {
        assert_eq!(
            parse_model_name("qtSd/g/openrouter/anthropic/x"),
            Some(["g", "openrouter", "anthropic/x"])
        );
        for text in [
            "qtSd/",
            "qtSd//b/c",
            "qtSd/a//c",
            "qtSd/a/b/",
            "qtSd/a/b",
            "qtSd/a",
            "",
            "qtsd/a/b/c",
            " qtSd/a/b/c",
        ] {
            assert_eq!(parse_model_name(text), None, "{text:?}");
        }
        assert!(is_model_name("qtSd/") && !is_model_name("qtsd/a/b/c"));
    }

    proptest! {
        #[test]
        fn a_built_name_reads_back(group in ".*", provider in "[^/]{1,12}", model in ".{1,24}") {
            let name = model_name(&group, &provider, &model);
            let slug = slug(&group);
            prop_assert_eq!(parse_model_name(&name), Some([slug.as_str(), provider.as_str(), model.as_str()]));
        }
    }
}
