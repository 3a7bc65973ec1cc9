//! Link flags of a Node-API addon; nothing to do when the crate is built without Node.

fn main() {
    #[cfg(feature = "node")]
    napi_build::setup();
    // The header beside the bundled SQLite: a test compares our table of functions with it.
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo talks to build scripts through the environment"
    )]
    let include = std::env::var("DEP_SQLITE3_INCLUDE");
    if let Ok(include) = include {
        println!("cargo:rustc-env=QUOTA_CORE_SQLITE3_INCLUDE={include}");
    }
}
