//! Facts about providers, as tables.
