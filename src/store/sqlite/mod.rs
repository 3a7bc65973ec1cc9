//! SQLite: the host's connection or an own file, behind one thin statement layer.
//!
//! The only place with `unsafe` and with SQL. Queries are grouped by what they serve; each names the index it uses.

mod api;
mod connection;
pub mod cooldowns;
#[cfg(test)]
mod entry_tests;
mod error;
mod files;
mod follow;
mod guard;
pub mod host;
pub mod index;
pub mod lease_rows;
mod library;
mod pager;
pub mod quota_queries;
pub mod schema;
pub mod server_logs;
pub mod share_consumption;
pub mod share_groups;
pub mod share_keys;
pub mod share_lookup;
pub mod share_plans;
pub mod share_pools;
pub mod share_schema;
mod statement;
pub mod usage;
mod watch;

pub use api::ApiError;
pub use connection::{AttachError, Conn, sqlite3_extension_init};
pub use error::{SqlError, SqlErrorKind};
pub use follow::Follower;
pub use library::library_path;
pub use statement::{Param, Row};
pub use watch::{Cause, Watched};
