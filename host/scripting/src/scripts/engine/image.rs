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
use crate::scripts::host::{RunInfo, RunState, guest};
use belvedere_base::clock::Clock;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_wasm::sandbox::CompiledFile;

/// Makes the image ahead of time (`belvedere guest prepare`) and returns its path.
///
/// # Errors
/// When it can't be compiled or written.
pub async fn prepare(cache_dir: &Path) -> Result<PathBuf, EngineError> {
    let config = EngineConfig::new(cache_dir);
    let engine = Engine::new(&wasm_config(&config)).map_err(EngineError::Wasm)?;
    let file = file(cache_dir, &engine);
    if file.load(&engine).is_none() {
        let artifact = compile(&engine).await.map_err(EngineError::Wasm)?;
        let path = file.path().to_owned();
        file.save(&artifact).map_err(|source| EngineError::Cache { path, source })?;
    }
    Ok(file.path().to_owned())
}

/// Loads the image from the cache, or compiles it and writes it there. When the cache can't be written, the engine
/// still starts, and the next start compiles again.
pub(in crate::scripts) async fn load(cache_dir: &Path, engine: &Engine) -> Result<Component, EngineError> {
    let file = file(cache_dir, engine);
    if let Some(component) = file.load(engine) {
        return Ok(component);
    }
    tracing::info!("compiling the script guest; the next start loads it from the cache");
    let artifact = compile(engine).await.map_err(EngineError::Wasm)?;
    file.keep(engine, &artifact).map_err(EngineError::Wasm)
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

fn file(cache_dir: &Path, engine: &Engine) -> CompiledFile {
    CompiledFile::new(cache_dir, &format!("guest-{}", &lua::HASH[..16]), engine, "the script guest")
}
