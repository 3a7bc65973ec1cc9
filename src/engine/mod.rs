//! The state of one instance: asks the store, lets the core decide.

mod link;
mod names;
pub mod rate;
pub mod sched;

pub use link::{Link, Notice};
