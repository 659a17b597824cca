//! The memory of a run: that of its instance, and what the host holds for it.

use crate::fair_share::Full;
use crate::scripts::scheduling::RunMemory;

/// Bytes of a result of the host that need no reservation: a page of usual records. An ordinary run leaves as much of the
/// memory with which its instance begins unused.
const FREE_RESULT_BYTES: usize = 256 << 10;

/// The memory of a run, and why it got no more.
#[derive(Debug, Default)]
pub(in crate::scripts) struct Memory {
    /// `None` in tests of the state alone.
    reservation: Option<RunMemory>,
    /// Bytes that were reserved for the largest result of the host so far.
    result: usize,
    /// Whether the instance asked for more than an instance may have.
    pub(in crate::scripts) refused: bool,
    /// Why no memory became free, if that ended the run.
    pub(in crate::scripts) full: Option<Full>,
}

/// Ends a run for which no memory became free. It is no error of Lua's, so no script can catch it.
#[derive(Debug, thiserror::Error)]
#[error("no memory for the run: {0}")]
struct NoMemory(Full);

impl Memory {
    pub(in crate::scripts) fn of(reservation: RunMemory) -> Self {
        Self { reservation: Some(reservation), ..Self::default() }
    }

    /// The reservation. It must outlive the store, which frees the instance's memories after its data.
    pub(in crate::scripts) fn reservation(&self) -> Option<&RunMemory> {
        self.reservation.as_ref()
    }

    /// Takes `bytes` more if that needs no wait.
    pub(super) fn try_grow(&self, bytes: usize) -> bool {
        self.reservation.as_ref().is_none_or(|reservation| reservation.try_grow(bytes))
    }

    /// Takes `bytes` more, and waits for them if it has to.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<(), Full> {
        let Some(reservation) = &self.reservation else { return Ok(()) };
        reservation.grow(bytes).await
    }

    /// Releases `bytes` that were reserved.
    pub(super) fn give_back(&self, bytes: usize) {
        if let Some(reservation) = &self.reservation {
            reservation.shrink(bytes);
        }
    }

    /// As [`Self::reserve`], but the error ends the run.
    pub(super) async fn grow(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.reserve(bytes).await.map_err(|full| {
            self.full = Some(full);
            wasmtime::Error::new(NoMemory(full))
        })
    }

    /// Reserves memory for a result of the host, before the guest takes it over. The host holds the bytes while the guest
    /// grows, which may take as long as a run may wait. A run has one result at a time, so the largest counts.
    pub(super) async fn hold_result(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let more = bytes.saturating_sub(FREE_RESULT_BYTES).saturating_sub(self.result);
        if more == 0 {
            return Ok(());
        }
        self.result += more;
        self.grow(more).await
    }
}
