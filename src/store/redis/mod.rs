//! Redis or Valkey as it is: one client, and the scripts that run on the server. Owns everything that is sent there; does
//! not decide what to do when the server is away.

pub mod admission;
mod client;
mod error;
pub mod quota;
mod script;
mod target;

pub use client::Client;
pub use error::{StoreError, sort_reply};
pub use target::{Plain, Sentinel, Target, TargetOptions, Tls};
