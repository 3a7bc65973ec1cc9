//! Pure rules: windows, leases, caps, cooldowns, learning, fair share. No clock, no SQL, no Node.

mod compat;

pub use compat::Compat;
