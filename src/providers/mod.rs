//! Facts about providers, as tables.

pub mod caps;
pub mod plans;
pub mod pools;
pub mod quota_headers;
