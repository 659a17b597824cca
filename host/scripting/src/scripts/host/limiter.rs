//! Decides how far a run's instance may grow. An instance waits in `memory.grow` until there is memory for it.

use std::future::ready;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use wasmtime::ResourceLimiterAsync;

use super::state::RunState;
use crate::scripts::limits;
use belvedere_wasm::sandbox::RunMemory;

impl ResourceLimiterAsync for RunState {
    fn memory_growing<'a, 'b>(
        &'a mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> BoxFuture<'b, wasmtime::Result<bool>>
    where
        'a: 'b,
        Self: 'b,
    {
        let most = self.memory.run().map_or(limits::LINEAR_MEMORY, RunMemory::most);
        if desired > most.min(limits::LINEAR_MEMORY) {
            self.memory.refused = true;
            return ready(Ok(false)).boxed();
        }
        let more = desired.saturating_sub(current);
        // An ordinary run does not pay for the future that waits.
        if self.memory.try_grow(more) {
            return ready(Ok(true)).boxed();
        }
        async move { self.memory.grow(more).await.map(|()| true) }.boxed()
    }

    fn table_growing<'a, 'b>(
        &'a mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> BoxFuture<'b, wasmtime::Result<bool>>
    where
        'a: 'b,
        Self: 'b,
    {
        ready(Ok(desired <= limits::TABLE_ELEMENTS)).boxed()
    }
}
