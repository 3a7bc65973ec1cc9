//! Scheduling inside a pool and the signals it reads: the pure rules and their state machines. Time is an argument;
//! names are interned by the engine; nothing here asks a store or a provider.

pub mod buckets;
pub mod headers;
pub mod naming;
pub mod round_robin;
pub mod slots;

/// A name (connection, execution key) that the engine has interned: comparing and hashing it costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);
