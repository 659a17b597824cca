//! Finds Lua's own sources in the `lua-src` crate.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The crate that carries the sources, and the folder of the version in use.
const CRATE: &str = "lua-src";
const FOLDER: &str = "lua-5.4.9";

/// Manifest of a package whose only dependency is `lua-src`. The lock file beside it chooses the version.
const PROBE_MANIFEST: &str = "[package]\nname = \"lua-sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
    [dependencies]\nlua-src = \"*\"\n\n[workspace]\n";

/// The folder of Lua's sources. `out` is a folder that may be written to.
///
/// Asks cargo for the graph of a package that depends on nothing but `lua-src`, with the versions of our own
/// lock file. That graph is always complete on disk, since this build script was linked with the crate. The workspace's
/// own graph may not be: it has packages of other platforms, which a build does not download.
pub(crate) fn sources(workspace: &Path, out: &Path) -> Result<PathBuf> {
    let probe = out.join("lua-sources");
    fs::create_dir_all(probe.join("src"))?;
    fs::write(probe.join("src/lib.rs"), "")?;
    fs::write(probe.join("Cargo.toml"), PROBE_MANIFEST)?;
    fs::copy(workspace.join("Cargo.lock"), probe.join("Cargo.lock")).context("the workspace's Cargo.lock")?;
    let cargo = env::var_os("CARGO").context("CARGO is not set; this is a build script")?;
    // Runs in the workspace's folder, so that a `.cargo/config.toml` that vendors the registry applies here too.
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--manifest-path"])
        .arg(probe.join("Cargo.toml"))
        .current_dir(workspace)
        .output()
        .context("cargo metadata could not be started")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == CRATE)
        .and_then(|package| package["manifest_path"].as_str())
        .with_context(|| format!("cargo metadata does not list {CRATE}"))?;
    let folder = Path::new(manifest).parent().context("a manifest lies in a folder")?.join(FOLDER);
    ensure!(folder.join("lvm.c").is_file(), "{CRATE} has no {FOLDER}: its version in Cargo.toml must match");
    Ok(folder)
}
