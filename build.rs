//! Link flags of a Node-API addon; nothing to do when the crate is built without Node.

fn main() {
    #[cfg(feature = "node")]
    napi_build::setup();
}
