//! Where state lives: the only place with SQL, Lua and unsafe SQLite calls.

pub mod sqlite;
