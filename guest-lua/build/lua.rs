//! Lua's own sources: where they are, and the one change made to them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The crate that carries the sources, and the folder of the version in use.
const CRATE: &str = "lua-src";
const FOLDER: &str = "lua-5.4.9";

/// A package that depends on nothing but the sources. The lock file beside it chooses their version.
const QUESTION: &str = "[package]\nname = \"lua-sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
    [dependencies]\nlua-src = \"*\"\n\n[workspace]\n";

/// The instruction fetch of the VM. Every instruction, on every thread, goes through it.
const FETCH: &str = "#define vmfetch()\t{ \\\n";
/// The same with the counter: under zero nothing returns. The program counter is saved first, for the line, as
/// past the instruction that was about to run.
const METERED_FETCH: &str = "static int meter_left = 0x7fffffff;\n\
     static void meter_exhausted (lua_State *L);\n\
     #define vmfetch()\t{ \\\n  if (l_unlikely(--meter_left < 0)) { pc++; savepc(L); meter_exhausted(L); } \\\n";

/// The folder of Lua's sources. `out` is a folder that may be written to.
///
/// Cargo is asked for the graph of a package that depends on nothing but the sources, with the versions of our own
/// lock file. All of that graph is there, since this build script was linked with it. The workspace's own graph is
/// not: it names packages of other platforms, which only a machine that has been used for development has.
pub(crate) fn sources(workspace: &Path, out: &Path) -> Result<PathBuf> {
    let question = out.join("lua-sources");
    fs::create_dir_all(question.join("src"))?;
    fs::write(question.join("src/lib.rs"), "")?;
    fs::write(question.join("Cargo.toml"), QUESTION)?;
    fs::copy(workspace.join("Cargo.lock"), question.join("Cargo.lock"))
        .context("the workspace's Cargo.lock")?;
    let cargo = env::var_os("CARGO").context("CARGO is not set; this is a build script")?;
    // In the workspace's folder, so that a `.cargo/config.toml` that vendors the registry counts here too.
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--manifest-path"])
        .arg(question.join("Cargo.toml"))
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

/// `lvm.c` with the instruction counter. Fails unless there is exactly one place for it, so that a new version of
/// Lua can't slip through unmetered.
pub(crate) fn metered_vm(lvm: &str) -> Result<String> {
    let places = lvm.matches(FETCH).count();
    ensure!(places == 1, "lvm.c defines vmfetch {places} times where once was expected; review the patch");
    Ok(lvm.replace(FETCH, METERED_FETCH))
}
