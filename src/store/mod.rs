//! Where state lives: the only place with SQL, Lua and unsafe SQLite calls.

#[allow(
    unsafe_code,
    reason = "SQLite is C: every call into it stays below this module"
)]
pub mod sqlite;

#[cfg(feature = "redis")]
pub mod redis;
