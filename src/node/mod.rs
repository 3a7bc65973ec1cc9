//! The Node-API layer: check, convert, call.

use napi_derive::napi;

#[napi]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
