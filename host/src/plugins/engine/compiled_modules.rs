//! Keeps compiled modules on disk, so that each is compiled once for each engine.

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

/// Bytes of them: machine code has several times the size of its module, of which 32 MiB are permitted.
const MAX_BYTES: u64 = 1 << 30;

/// What the names of the files begin with.
const PREFIX: &str = "plugin-";

/// A module from the cache, with its SHA-256. `None` when it has to be compiled.
pub(super) fn cached(engine: &Engine, folder: &Path, module: &[u8]) -> Option<(String, Component)> {
    let (sha256, file) = file_of(engine, folder, module);
    file.load(engine).map(|component| (sha256, component))
}

fn file_of(engine: &Engine, folder: &Path, module: &[u8]) -> (String, CompiledFile) {
    let sha256 = hex::encode(Sha256::digest(module));
    let file = file_of_hash(engine, folder, &sha256);
    (sha256, file)
}

fn file_of_hash(engine: &Engine, folder: &Path, sha256: &str) -> CompiledFile {
    CompiledFile::new(folder, &format!("{PREFIX}{sha256}"), engine, "a plugin")
}

/// Whether the module with this SHA-256 is in the cache.
pub(super) fn is_cached(engine: &Engine, folder: &Path, sha256: &str) -> bool {
    file_of_hash(engine, folder, sha256).is_usable()
}

/// Keeps the machine code of a module in the cache, and loads it. Returns the module's SHA-256 as well.
pub(super) fn keep(
    engine: &Engine,
    folder: &Path,
    module: &[u8],
    machine_code: &[u8],
) -> Result<(String, Component), LoadError> {
    let (sha256, file) = file_of(engine, folder, module);
    let unusable =
        |error: wasmtime::Error| LoadError::Invalid(format!("its machine code can't be loaded: {error:#}"));
    let component = file.keep(engine, machine_code).map_err(unusable)?;
    remove_oldest(folder, MAX_FILES, MAX_BYTES);
    Ok((sha256, component))
}

/// Removes the files that were written first, but not the last. A process that has mapped one keeps it until it ends.
fn remove_oldest(folder: &Path, max_files: usize, max_bytes: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, PathBuf, u64)> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(PREFIX) && name.ends_with(".cwasm")
        })
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, entry.path(), metadata.len()))
        })
        .collect();
    files.sort();
    let mut bytes = 0;
    for (count, (_, path, length)) in files.into_iter().rev().enumerate() {
        bytes += length;
        if count > 0 && (count >= max_files || bytes > max_bytes) {
            // Another process may have removed it.
            let _ = fs::remove_file(path.with_extension("sha256"));
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_files_are_removed_beyond_a_count_or_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |names: &[&str]| {
            for (age, name) in names.iter().enumerate() {
                let path = folder.path().join(name);
                fs::write(&path, [0; 10]).unwrap();
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age as u64);
                fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            }
        };
        let names = || {
            let mut names: Vec<String> = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let all = ["other.cwasm", "plugin-1.cwasm", "plugin-1.sha256", "plugin-2.cwasm", "plugin-3.cwasm"];
        write(&all);
        remove_oldest(folder.path(), 3, 30);
        assert_eq!(names(), all);
        remove_oldest(folder.path(), 2, 30);
        assert_eq!(names(), ["other.cwasm", "plugin-2.cwasm", "plugin-3.cwasm"]);
        remove_oldest(folder.path(), 2, 19);
        assert_eq!(names(), ["other.cwasm", "plugin-3.cwasm"]);
        remove_oldest(folder.path(), 2, 9);
        assert_eq!(names(), ["other.cwasm", "plugin-3.cwasm"], "the last one stays");
    }
}
