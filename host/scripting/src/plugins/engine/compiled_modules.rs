//! Keeps compiled modules on disk, so that each is compiled once for each engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::LoadError;
use belvedere_base::files;
use belvedere_wasm::sandbox::CompiledFile;

/// Compiled modules on disk; the oldest beyond it are removed. Two versions of many plugins, some megabytes each.
const MAX_FILES: usize = 64;

/// Bytes of them: machine code has several times the size of its module, of which 32 MiB are permitted.
const MAX_BYTES: u64 = 1 << 30;

/// Age relative to the newest file at which a temporary file has no writer any more.
const ABANDONED: Duration = Duration::from_hours(1);

/// The beginning of the files' names.
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
    file_of_hash(engine, folder, sha256).is_there()
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

/// Removes the files that were written first, but not the last, and temporary files of processes that were killed. A process that
/// has mapped a file keeps it until it ends.
fn remove_oldest(folder: &Path, max_files: usize, max_bytes: u64) {
    let mut files = files_of(folder, ".cwasm");
    let mut temporary = files_of(folder, files::TEMPORARY);
    files.sort();
    temporary.sort();
    let newest = files.last().max(temporary.last()).map(|(modified, ..)| *modified);
    for (modified, path, _) in temporary {
        let age = newest.and_then(|newest| newest.duration_since(modified).ok());
        if age.is_some_and(|age| age > ABANDONED) {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
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

/// The cache's files whose names end with `end`: when they were written, and their bytes.
fn files_of(folder: &Path, end: &str) -> Vec<(SystemTime, PathBuf, u64)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_wanted = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(end)
    };
    let found = entries.flatten().filter(is_wanted).filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some((metadata.modified().ok()?, entry.path(), metadata.len()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_of_killed_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, minutes: u64| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_mins(minutes)).unwrap();
        };
        for (name, minutes) in
            [("plugin-1.7.tmp", 1), ("plugin-2.8.tmp", 70), ("other.9.tmp", 1), ("plugin-3.cwasm", 100)]
        {
            write(name, minutes);
        }
        remove_oldest(folder.path(), 3, 30);
        let is_there = |name: &str| folder.path().join(name).exists();
        assert!(!is_there("plugin-1.7.tmp"));
        assert!(is_there("plugin-2.8.tmp") && is_there("other.9.tmp") && is_there("plugin-3.cwasm"));
    }

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
