//! The plugins that `dev/plugins.sh` builds.

use std::fs;
use std::path::PathBuf;

/// A built plugin.
#[derive(Clone, Debug)]
pub struct BuiltPlugin {
    /// Its `manifest.json`.
    pub manifest: Vec<u8>,
    /// Its `plugin.wasm`.
    pub module: Vec<u8>,
}

/// Reads a plugin of `plugins/` or `tests/plugins/`.
///
/// # Panics
/// When it is not built.
pub fn built(name: &str) -> BuiltPlugin {
    let folder = folder().join(name);
    let read = |file: &str| {
        let path = folder.join(file);
        fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; build it with: sh dev/plugins.sh {name}", path.display())
        })
    };
    BuiltPlugin { manifest: read("manifest.json"), module: read("plugin.wasm") }
}

/// `plugins` in cargo's target folder, in which the running test is (`debug/deps/NAME`).
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.ancestors().nth(3).expect("a test is in the target folder").join("plugins")
}
