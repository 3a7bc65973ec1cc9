//! Link flags of a Node-API addon; nothing to do when the crate is built without Node.

fn main() {
    #[cfg(feature = "node")]
    napi_build::setup();
    // The header beside the bundled SQLite: a test compares our table of functions with it.
    if let Ok(include) = std::env::var("DEP_SQLITE3_INCLUDE") {
        println!("cargo:rustc-env=QUOTA_CORE_SQLITE3_INCLUDE={include}");
    }
}
