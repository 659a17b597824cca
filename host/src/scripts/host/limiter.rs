//! Decides how far a run's instance may grow. An instance waits in `memory.grow` until there is memory for it.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use wasmtime::ResourceLimiterAsync;

use super::state::RunState;
use crate::scripts::limits;

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
        async move {
            if desired > limits::LINEAR_MEMORY {
                self.memory.refused = true;
                return Ok(false);
            }
            self.memory.grow(desired.saturating_sub(current)).await?;
            Ok(true)
        }
        .boxed()
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
        async move { Ok(desired <= limits::TABLE_ELEMENTS) }.boxed()
    }
}
