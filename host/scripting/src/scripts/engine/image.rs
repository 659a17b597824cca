//! Makes the image of the guest, pre-initialised and compiled for this machine, and caches it on disk. Making it takes a
//! second or two, loading it milliseconds. The file's name holds the guest's hash.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belvedere_guest_lua as lua;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, Result, Store};
use wasmtime_wizer::Wizer;

use super::config::{EngineConfig, EngineError, wasm_config};
use crate::scripts::host::tid::TidClock;
use crate::scripts::host::{self, RunInfo, RunState};
use belvedere_base::clock::Clock;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_wasm::sandbox::CompiledFile;

/// Makes the images ahead of time (`belvedere guest prepare`) and returns the path of the one of ordinary runs.
///
/// # Errors
/// When one can't be compiled or written.
pub async fn prepare(cache_dir: &Path) -> Result<PathBuf, EngineError> {
    let config = EngineConfig::new(cache_dir);
    let engine = Engine::new(&wasm_config(&config)).map_err(EngineError::Wasm)?;
    for guest in [GuestBuild::Profiled, GuestBuild::Ordinary] {
        let file = guest.file(cache_dir, &engine);
        if file.load(&engine).is_none() {
            let artifact = compile(&engine, guest).await.map_err(EngineError::Wasm)?;
            let path = file.path().to_owned();
            file.save(&artifact).map_err(|source| EngineError::Cache { path, source })?;
        }
    }
    Ok(GuestBuild::Ordinary.file(cache_dir, &engine).path().to_owned())
}

/// Loads the image from the cache, or compiles it and writes it there. When the cache can't be written, the engine
/// still starts, and the next start compiles again.
pub(in crate::scripts) async fn load(
    cache_dir: &Path,
    engine: &Engine,
    guest: GuestBuild,
) -> Result<Component, EngineError> {
    let file = guest.file(cache_dir, engine);
    if let Some(component) = file.load(engine) {
        return Ok(component);
    }
    tracing::info!("compiling the script guest; the next start loads it from the cache");
    let artifact = compile(engine, guest).await.map_err(EngineError::Wasm)?;
    file.keep(engine, &artifact).map_err(EngineError::Wasm)
}

/// Runs the guest's `init` and compiles the snapshot with `engine`.
async fn compile(engine: &Engine, guest: GuestBuild) -> Result<Vec<u8>> {
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
        .run_component(&mut store, guest.component(), async |store, component| {
            host::guest::linker(store.engine())?.instantiate_async(store, component).await
        })
        .await?;
    engine.precompile_component(&snapshot)
}

/// The guest of ordinary runs, or the one that counts instructions by line.
#[derive(Clone, Copy, Debug)]
pub(in crate::scripts) enum GuestBuild {
    Ordinary,
    Profiled,
}

impl GuestBuild {
    fn component(self) -> &'static [u8] {
        match self {
            Self::Ordinary => lua::COMPONENT,
            Self::Profiled => lua::PROFILED_COMPONENT,
        }
    }

    fn file(self, cache_dir: &Path, engine: &Engine) -> CompiledFile {
        let (name, hash, what) = match self {
            Self::Ordinary => ("guest", lua::HASH, "the script guest"),
            Self::Profiled => ("profiled-guest", lua::PROFILED_HASH, "the script guest for profiles"),
        };
        CompiledFile::new(cache_dir, &format!("{name}-{}", &hash[..16]), engine, what)
    }
}
