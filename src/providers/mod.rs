//! Facts about providers, as tables.

pub mod caps;
