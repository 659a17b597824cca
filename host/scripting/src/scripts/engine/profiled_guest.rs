//! The guest of profiled runs. It is loaded when the first of them begins, so that a server without profiles has neither its
//! memory nor its start.

use std::path::PathBuf;

use tokio::sync::OnceCell;

use super::config::EngineError;
use super::image::{self, GuestBuild};
use crate::scripts::host::Guest;
use crate::scripts::{FailureKind, ScriptFailure};

pub(super) struct ProfiledGuest {
    cache_dir: PathBuf,
    wasm: wasmtime::Engine,
    guest: OnceCell<Guest>,
}

impl ProfiledGuest {
    pub(super) fn new(cache_dir: PathBuf, wasm: wasmtime::Engine) -> Self {
        Self { cache_dir, wasm, guest: OnceCell::new() }
    }

    /// The guest. The first call loads it, or compiles it for some seconds when the cache has none that fits.
    ///
    /// # Errors
    /// When it can't be loaded; the next call tries again.
    pub(super) async fn get(&self) -> Result<&Guest, ScriptFailure> {
        self.guest.get_or_try_init(|| self.load()).await.map_err(|error| {
            tracing::error!(%error, "the guest of profiled runs can't be loaded");
            ScriptFailure::new(FailureKind::Internal, "the guest of profiled runs can't be loaded")
        })
    }

    /// Whether a run gets the guest at once.
    pub(super) fn is_loaded(&self) -> bool {
        self.guest.initialized()
    }

    async fn load(&self) -> Result<Guest, EngineError> {
        let (cache_dir, wasm) = (self.cache_dir.clone(), self.wasm.clone());
        let runtime = tokio::runtime::Handle::current();
        let loading = tokio::task::spawn_blocking(move || {
            runtime.block_on(image::load(&cache_dir, &wasm, GuestBuild::Profiled))
        });
        let image = loading.await.map_err(|error| EngineError::Wasm(wasmtime::Error::new(error)))??;
        Guest::link(&self.wasm, &image).map_err(EngineError::Wasm)
    }
}
