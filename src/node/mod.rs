//! The Node-API layer: check, convert, call.

mod error;
mod link;
mod rate;
mod sched;
