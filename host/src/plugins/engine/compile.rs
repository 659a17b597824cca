//! Compiles a module once for each engine, and keeps the result on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::LoadError;
use crate::sandbox::CompiledFile;

/// Compiled modules on disk; the oldest beyond it are removed. Two versions of many plugins, some megabytes each.
const MAX_FILES: usize = 64;

/// What the names of the files begin with.
const PREFIX: &str = "plugin-";

/// Loads a module from the cache, or compiles it. Returns its SHA-256 as well.
pub(super) fn load(engine: &Engine, folder: &Path, module: &[u8]) -> Result<(String, Component), LoadError> {
    let sha256 = hex::encode(Sha256::digest(module));
    let file = CompiledFile::new(folder, &format!("{PREFIX}{sha256}"), engine, "a plugin");
    if let Some(component) = file.load(engine) {
        return Ok((sha256, component));
    }
    let unusable = |error: wasmtime::Error| LoadError(format!("the component can't be compiled: {error:#}"));
    let artifact = engine.precompile_component(module).map_err(unusable)?;
    let component = file.keep(engine, &artifact).map_err(unusable)?;
    remove_oldest(folder);
    Ok((sha256, component))
}

/// Removes the files that were written first. A process that has mapped one keeps it until it ends.
fn remove_oldest(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(PREFIX) && name.ends_with(".cwasm")
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let spare = files.len().saturating_sub(MAX_FILES);
    for (_, path) in files.into_iter().take(spare) {
        // Another process may have removed it.
        let _ = fs::remove_file(path.with_extension("sha256"));
        let _ = fs::remove_file(path);
    }
}
