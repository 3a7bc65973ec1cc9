//! Facts about providers, as tables.

pub mod caps;
pub mod plans;
