//! The memory of a run: that of its instance, and what the host holds for it.

use belvedere_wasm::sandbox::{NoMemory, ResultMemory, RunMemory};
use belvedere_web::fair_share::Full;

/// Bytes of a result of the host that need no memory of the run: a page of usual records. An ordinary run leaves as much of
/// the memory with which its instance begins unused.
const FREE_RESULT_BYTES: usize = 256 << 10;

/// The memory of a run, and why it got no more.
#[derive(Debug)]
pub(in crate::scripts) struct Memory {
    /// `None` in tests of the state alone.
    run: Option<RunMemory>,
    pub(super) results: ResultMemory,
    /// Whether the instance asked for more than an instance may have.
    pub(in crate::scripts) refused: bool,
    /// Why no memory became free, if that ended the run.
    pub(in crate::scripts) full: Option<Full>,
}

impl Memory {
    pub(in crate::scripts) fn new(run: Option<RunMemory>) -> Self {
        let results = ResultMemory::new(run.clone(), FREE_RESULT_BYTES);
        Self { run, results, refused: false, full: None }
    }

    /// What the run has taken. It must outlive the store, which frees the instance's memories after its data.
    pub(in crate::scripts) fn run(&self) -> Option<&RunMemory> {
        self.run.as_ref()
    }

    /// Takes `bytes` more if that needs no wait.
    pub(super) fn try_grow(&self, bytes: usize) -> bool {
        self.run.as_ref().is_none_or(|run| run.try_grow(bytes))
    }

    /// Takes `bytes` more, and waits for them if it has to. The error ends the run.
    pub(super) async fn grow(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let Some(run) = &self.run else { return Ok(()) };
        run.grow(bytes).await.map_err(|full| self.without(full))
    }

    /// Takes memory for a result of the host, before the guest takes it over. The host holds the bytes while the guest grows,
    /// which may take as long as a run may wait. The error ends the run.
    pub(super) async fn hold_result(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.results.begin().await;
        self.results.take(bytes).await.map_err(|full| self.without(full))
    }

    /// Ends the run if a result got no memory.
    pub(super) fn check(&mut self, results: &ResultMemory) -> wasmtime::Result<()> {
        results.full().map_or(Ok(()), |full| Err(self.without(full)))
    }

    fn without(&mut self, full: Full) -> wasmtime::Error {
        self.full = Some(full);
        wasmtime::Error::new(NoMemory(full))
    }
}
