//! Pure rules: windows, leases, caps, cooldowns, learning, fair share. No clock, no SQL, no Node.

pub mod billing;
mod compat;
pub mod env_caps;
pub mod error_text;
pub mod js_number;
pub mod learning;
pub mod model_scope;
pub mod share;
mod stated_limit;

pub mod url_locality;

pub use compat::Compat;
