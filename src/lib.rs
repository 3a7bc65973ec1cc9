//! `quota-core`: the quota, cooldown and fair-share engine of LLM gateways.
//!
//! The layers, from the inside out (nothing flows back up):
//!
//! - [`core`]: pure rules. Values in, values out; time is an argument.
//! - [`providers`]: facts about providers, as tables.
//! - [`store`]: the only place with SQL, Lua and unsafe SQLite calls.
//! - [`engine`]: the state of one instance; asks the store, lets the core decide.
//! - `node`: the Node-API layer (feature `node`): check, convert, call.

pub mod core;
pub mod engine;
#[cfg(feature = "node")]
// The exports register themselves in the addon only: to the test build they look unused.
#[cfg_attr(test, allow(dead_code))]
mod node;
pub mod providers;
pub mod store;
