//! Decides how far an instance may grow, and keeps the memory of what the host holds for it.

use std::future::ready;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use wasmtime::ResourceLimiterAsync;

use super::{NoMemory, ResultMemory, RunMemory};
use belvedere_web::fair_share::Full;

/// The most that an instance may have.
#[derive(Clone, Copy, Debug)]
pub struct GrowthLimits {
    /// Bytes of its linear memory.
    pub memory_bytes: usize,
    /// Entries of each of its tables.
    pub table_elements: usize,
    /// Bytes of a result of the host that need no memory of the run.
    pub free_result_bytes: usize,
}

/// The memory of one instance. An instance waits in `memory.grow` until there is memory for it.
#[derive(Debug)]
pub struct InstanceMemory {
    limits: GrowthLimits,
    /// `None` until the run begins: then the instance pays for nothing.
    run: Option<RunMemory>,
    /// For results of the host.
    pub results: ResultMemory,
    /// Bytes that the run has taken and the instance has not grown by yet.
    prepaid: usize,
    grown: usize,
    refused: bool,
    /// The reason why no memory became free for it.
    full: Option<Full>,
}

impl InstanceMemory {
    pub fn new(limits: GrowthLimits) -> Self {
        let results = ResultMemory::new(None, limits.free_result_bytes);
        Self { limits, run: None, results, prepaid: 0, grown: 0, refused: false, full: None }
    }

    /// Takes the `expected` bytes of the run, which the instance then has without a wait.
    pub(crate) async fn begin(&mut self, run: &RunMemory, expected: usize) -> Result<(), Full> {
        run.grow(expected).await?;
        self.prepaid = expected;
        self.results = ResultMemory::new(Some(run.clone()), self.limits.free_result_bytes);
        self.run = Some(run.clone());
        Ok(())
    }

    /// Begins with another instance, which has what this one has taken.
    pub(crate) fn restart(&mut self) {
        self.prepaid += std::mem::take(&mut self.grown);
    }

    /// The most bytes that the instance may have.
    pub fn most(&self) -> usize {
        self.run.as_ref().map_or(usize::MAX, RunMemory::most).min(self.limits.memory_bytes)
    }

    /// The bytes that the instance has.
    pub fn grown(&self) -> usize {
        self.grown
    }

    /// Whether the instance asked for more than [`Self::most`].
    pub fn was_refused(&self) -> bool {
        self.refused
    }

    /// The reason why the instance got no memory that it may have. The error of the run does not say so when it was the heap
    /// of the component's references that did not grow.
    pub(crate) fn full(&self) -> Option<Full> {
        self.full
    }

    /// Counts bytes that the instance got, those that were taken before first.
    fn has_grown(&mut self, more: usize) {
        self.grown += more;
        self.prepaid = self.prepaid.saturating_sub(more);
    }

    /// For one of several calls that the instance makes at the same time.
    #[must_use]
    pub fn part(&self) -> Self {
        let run = self.run.clone();
        Self { results: self.results.part(), run, ..Self::new(self.limits) }
    }

    /// Memory for something that the host keeps beside the results.
    pub fn keeping(&self) -> ResultMemory {
        ResultMemory::new(self.run.clone(), 0)
    }

    /// Takes memory for a result of the host, before the guest takes it over. The host holds the bytes while the guest grows,
    /// which may take as long as a run may wait.
    ///
    /// # Errors
    /// When no memory became free in time. The error must end the run.
    pub async fn hold_result(&mut self, bytes: usize) -> Result<(), NoMemory> {
        self.results.begin().await;
        self.results.take(bytes).await.map_err(NoMemory)
    }
}

impl ResourceLimiterAsync for InstanceMemory {
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
        if desired > self.most() {
            self.refused = true;
            return ready(Ok(false)).boxed();
        }
        let more = desired.saturating_sub(current);
        let unpaid = more.saturating_sub(self.prepaid);
        // An ordinary run does not pay for the future that waits.
        if self.run.as_ref().is_none_or(|run| run.try_grow(unpaid)) {
            self.has_grown(more);
            return ready(Ok(true)).boxed();
        }
        async move {
            if let Some(run) = &self.run {
                run.grow(unpaid).await.map_err(|why| NoMemory(*self.full.insert(why)))?;
            }
            self.has_grown(more);
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
        ready(Ok(desired <= self.limits.table_elements)).boxed()
    }
}
