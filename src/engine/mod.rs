//! The state of one instance: asks the store, lets the core decide.

mod link;
pub mod rate;

pub use link::{Link, Notice};
