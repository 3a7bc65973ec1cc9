//! Which quota a provider counts a request against: the names of its pools. A table of facts.

use crate::core::js_number::js_trim;

/// The pools of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    /// One for all models.
    Fixed(&'static str),
    /// Models whose id ends in `:free` share one, all others another.
    FreeModels {
        free: &'static str,
        other: &'static str,
    },
}

use Pool::{Fixed, FreeModels};

/// Platforms with pools that several models share. On any other platform each model has its own.
const POOLS: &[(&str, Pool)] = &[
    (
        "openrouter",
        FreeModels {
            free: "free",
            other: "account",
        },
    ),
    ("google", Fixed("project")),
    ("groq", Fixed("account")),
    ("cerebras", Fixed("shared")),
    ("bai", Fixed("promo")),
    ("sambanova", Fixed("shared")),
    ("nvidia", Fixed("credit-pool")),
    ("mistral", Fixed("experiment-pool")),
    ("github", Fixed("account")),
    ("cohere", Fixed("trial-pool")),
    ("cloudflare", Fixed("account")),
    ("zhipu", Fixed("account")),
    ("ollama", Fixed("cloud")),
    ("kilo", Fixed("anonymous")),
    ("pollinations", Fixed("account")),
    ("llm7", Fixed("anonymous")),
    ("aihorde", Fixed("anonymous")),
    ("huggingface", Fixed("router")),
    ("opencode", Fixed("promo")),
    ("ainative", Fixed("account")),
    ("modelscope", Fixed("account")),
    ("routeway", Fixed("free")),
    ("bazaarlink", Fixed("free")),
    ("aion", Fixed("free")),
    ("requesty", Fixed("free")),
    ("navy", Fixed("free")),
    ("nara", Fixed("free")),
    ("sealion", Fixed("free")),
    ("orcarouter", Fixed("free")),
    ("unorouter", Fixed("free")),
    ("xkiro", Fixed("free")),
    ("anyapi", Fixed("free")),
];

fn pool_of(platform: &str) -> Option<Pool> {
    POOLS
        .iter()
        .find(|(name, _)| *name == platform)
        .map(|&(_, pool)| pool)
}

/// Do several models of this platform draw on one quota?
#[must_use]
pub fn is_shared_pool(platform: &str) -> bool {
    pool_of(platform).is_some()
}

/// The key of the pool that a model draws on: `<platform>::<pool>`, or `<platform>::<model id>`, or without a model
/// `<platform>::account`. Blanks around a model id do not count.
#[must_use]
pub fn infer_pool_key(platform: &str, model_id: Option<&str>) -> String {
    let model_id = model_id.map(js_trim).filter(|id| !id.is_empty());
    let pool = match (pool_of(platform), model_id) {
        (Some(Fixed(pool)), _) => pool,
        (Some(FreeModels { free, .. }), Some(id)) if id.ends_with(":free") => free,
        (Some(FreeModels { other, .. }), _) => other,
        (None, id) => id.unwrap_or(ACCOUNT),
    };
    format!("{platform}::{pool}")
}

const ACCOUNT: &str = "account";

/// A pool that belongs to the account, not to the key: every key of the account reports the same numbers.
#[must_use]
pub fn is_account_pool(platform: &str, model_id: Option<&str>) -> bool {
    infer_pool_key(platform, model_id)
        .strip_prefix(platform)
        .and_then(|rest| rest.strip_prefix("::"))
        .is_some_and(|pool| pool == ACCOUNT)
}

#[cfg(test)]
mod tests {
    use super::{POOLS, infer_pool_key, is_account_pool, is_shared_pool};

    #[test]
    fn every_row_is_found_once() {
        for (platform, _) in POOLS {
            assert!(is_shared_pool(platform));
            assert_eq!(
                POOLS.iter().filter(|(name, _)| name == platform).count(),
                1,
                "{platform} is listed twice"
            );
            assert_eq!(
                infer_pool_key(platform, None),
                infer_pool_key(platform, Some(" "))
            );
        }
    }

    #[test]
    fn keys_as_recorded() {
        for (platform, model, expected) in [
            ("openrouter", Some("  x:free  "), "openrouter::free"),
            ("openrouter", Some("q:Free"), "openrouter::account"),
            ("openrouter", None, "openrouter::account"),
            ("google", Some("m"), "google::project"),
            ("nvidia", None, "nvidia::credit-pool"),
            ("custom", Some("  x:free  "), "custom::x:free"),
            ("custom", Some("   "), "custom::account"),
            ("Groq", None, "Groq::account"),
            ("", None, "::account"),
        ] {
            assert_eq!(infer_pool_key(platform, model), expected);
        }
        assert!(
            !is_shared_pool("custom") && !is_shared_pool("Groq") && !is_shared_pool("constructor")
        );
    }

    #[test]
    fn account_pools() {
        assert!(is_account_pool("groq", Some("m")) && is_account_pool("openrouter", Some("m")));
        assert!(
            !is_account_pool("openrouter", Some("m:free")) && !is_account_pool("cerebras", None)
        );
        assert!(!is_account_pool("custom", Some("x::accounts")));
    }
}
