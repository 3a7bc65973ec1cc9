//! The Node-API layer: check, convert, call.

mod error;
mod link;
mod provider_quota;
mod rate;
mod sched;
mod share;
mod share_access;
mod share_db;
mod share_rules;
