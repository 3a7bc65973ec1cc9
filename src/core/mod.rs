//! Pure rules: windows, leases, caps, cooldowns, learning, fair share. No clock, no SQL, no Node.

pub mod admission;
pub mod billing;
mod compat;
pub mod cooldown;
pub mod dates;
pub mod env_caps;
pub mod error_text;
pub mod gates;
pub mod headroom;
pub mod hits;
pub mod js_number;
pub mod learning;
pub mod leases;
pub mod model_scope;
pub mod probe;
pub mod quota_observation;
pub mod retry_after;
pub mod route;
pub mod sched;
pub mod share;
pub mod snapshot;
mod stated_limit;
pub mod time;
pub mod url_locality;
pub mod windows;

pub use compat::Compat;
