//! Rebuilds the crate when the built dashboard has changed: the program contains its files.

use std::path::Path;

fn main() {
    let built = Path::new("../../dashboard/dist");
    // Git ignores it. If it did not exist, cargo would rebuild the crate every time: it takes a missing path for a
    // changed one. That happens if the sources can't be written.
    let _ = std::fs::create_dir_all(built);
    println!("cargo::rerun-if-changed={}", built.display());
}
