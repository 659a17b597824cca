//! Makes the image of the guest, pre-initialised and compiled for this machine, and caches it on disk.
//!
//! Making it takes a second or two, loading it milliseconds. The file's name holds the guest's hash and the
//! engine's fingerprint, so that a new build or another machine makes its own. Loading maps machine code that is
//! then run, so a file is used only when no other user could have written it and its checksum matches.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belvedere_guest_lua as lua;
use sha2::{Digest, Sha256};
use wasmtime::component::Component;
use wasmtime::{Config, Engine, Result, Store};
use wasmtime_wizer::Wizer;

use super::config::{EngineConfig, EngineError, wasm_config};
use crate::clock::Clock;
use crate::files;
use crate::scripts::host::tid::TidClock;
use crate::scripts::host::{RunInfo, RunState, guest};
use crate::trigger::TriggerKind;

/// Makes the image ahead of time (`belvedere guest prepare`) and returns its path.
///
/// # Errors
/// When it can't be compiled or written.
pub async fn prepare(cache_dir: &Path) -> Result<PathBuf, EngineError> {
    let config = EngineConfig::new(cache_dir);
    let engine = Engine::new(&wasm_config(&config)).map_err(EngineError::Wasm)?;
    let path = path(cache_dir, &engine);
    if !is_trusted(&path).unwrap_or(false) {
        let artifact = compile(&engine).await.map_err(EngineError::Wasm)?;
        save(&path, &artifact).map_err(|source| EngineError::Cache { path: path.clone(), source })?;
    }
    Ok(path)
}

/// Loads the image from the cache, or compiles it and writes it there. When the cache can't be written, the engine
/// still starts, and the next start compiles again.
pub(in crate::scripts) async fn load(cache_dir: &Path, engine: &Engine) -> Result<Component, EngineError> {
    let path = path(cache_dir, engine);
    match is_trusted(&path) {
        Ok(true) => match map_file(engine, &path) {
            Ok(component) => return Ok(component),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the cached script guest is unusable");
            }
        },
        Ok(false) => {
            tracing::warn!(path = %path.display(), "the cached script guest is damaged or writable by others");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "the cached script guest can't be read"),
    }
    tracing::info!("compiling the script guest; the next start loads it from the cache");
    let artifact = compile(engine).await.map_err(EngineError::Wasm)?;
    match save(&path, &artifact) {
        Ok(()) => map_file(engine, &path).map_err(EngineError::Wasm),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the compiled script guest can't be written to the cache");
            load_from_memory(engine, &artifact).map_err(EngineError::Wasm)
        }
    }
}

/// Runs the guest's `init` and compiles the snapshot with `engine`.
async fn compile(engine: &Engine) -> Result<Vec<u8>> {
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .wasm_backtrace_max_frames(None)
        .cranelift_opt_level(wasmtime::OptLevel::None);
    let builder = Engine::new(&config)?;
    let info = RunInfo::check("".into(), TriggerKind::Query);
    let state = RunState::without_services(info, Clock::system(), Arc::new(TidClock::new(0)));
    let mut store = Store::new(&builder, state);
    let mut wizer = Wizer::new();
    wizer.init_func("init").keep_init_func(true);
    let (snapshot, _) = wizer
        .run_component(&mut store, lua::COMPONENT, async |store, component| {
            guest::linker(store.engine())?.instantiate_async(store, component).await
        })
        .await?;
    engine.precompile_component(&snapshot)
}

fn path(cache_dir: &Path, engine: &Engine) -> PathBuf {
    let mut fingerprint = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut fingerprint);
    cache_dir.join(format!("guest-{}-{:016x}.cwasm", &lua::HASH[..16], fingerprint.finish()))
}

/// The file with the checksum, beside the image.
fn checksum_path(path: &Path) -> PathBuf {
    path.with_extension("sha256")
}

/// Writes the image and its checksum, each atomically, and readable by this user only.
fn save(path: &Path, artifact: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        files::create_private_folder(folder)?;
    }
    files::replace(path, artifact)?;
    files::replace(&checksum_path(path), hex::encode(Sha256::digest(artifact)).as_bytes())
}

/// Whether the image matches its checksum, and only this user or root could have written it.
fn is_trusted(path: &Path) -> io::Result<bool> {
    let own = fs::metadata("/proc/self")?.uid();
    let private = |found: &Metadata| found.mode() & 0o022 == 0 && (found.uid() == own || found.uid() == 0);
    let folder = path.parent().unwrap_or(Path::new("."));
    let checksum = checksum_path(path);
    let artifact = fs::read(path)?;
    Ok(private(&fs::metadata(path)?)
        && private(&fs::metadata(folder)?)
        && private(&fs::metadata(&checksum)?)
        && fs::read_to_string(&checksum)? == hex::encode(Sha256::digest(&artifact)))
}

/// Maps an image that [`is_trusted`] accepted, or that this process just wrote.
#[expect(
    unsafe_code,
    reason = "wasmtime trusts the machine code in the file; is_trusted checked who could write it and its checksum"
)]
fn map_file(engine: &Engine, path: &Path) -> Result<Component> {
    unsafe { Component::deserialize_file(engine, path) }
}

/// Loads an image that was just compiled, when it can't be written to the cache.
#[expect(unsafe_code, reason = "the bytes were made by this process a moment ago")]
fn load_from_memory(engine: &Engine, artifact: &[u8]) -> Result<Component> {
    unsafe { Component::deserialize(engine, artifact) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_whole_and_private_file_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = folder.path().join("cache").join("guest.cwasm");
        assert_eq!(is_trusted(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        save(&path, b"machine code").unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(is_trusted(&path).unwrap());

        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(!is_trusted(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_trusted(&path).unwrap());
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();

        fs::write(&path, b"machine coda").unwrap();
        assert!(!is_trusted(&path).unwrap());
    }
}
