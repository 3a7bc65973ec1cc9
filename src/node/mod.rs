//! The Node-API layer: check, convert, call.

mod error;
mod link;
mod provider_quota;
mod rate;
mod raw;
#[cfg(feature = "redis")]
mod redis;
mod sched;
mod share;
mod share_access;
mod share_db;
mod share_plans;
mod share_rules;
mod share_store;

/// A count for JavaScript.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
