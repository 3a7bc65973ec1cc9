//! The state of one instance: asks the store, lets the core decide.

mod link;
mod names;
mod provider_quota;
pub mod rate;
pub mod sched;
pub mod share;

pub use link::{Link, Notice, WeakLink};
pub use provider_quota::{NewObservation, ProviderQuota, Recorded};
