//! The memory of what the host holds for a run before its guest takes it over.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{NoMemory, RunMemory};
use belvedere_web::fair_share::Full;
use belvedere_web::net::BodyMemory;

/// Memory is taken in steps of this many bytes.
const STEP: usize = 256 << 10;

/// Memory for results of the host. A run has one result at a time, so the largest counts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ResultMemory {
    inner: Arc<Inner>,
    /// Whether it is for a part of the present result.
    is_part: bool,
}

#[derive(Debug)]
struct Inner {
    /// `None` where nothing pays.
    memory: Option<RunMemory>,
    /// Locked while memory is taken: responses of one batch arrive at the same time, and a run waits for one thing at a
    /// time.
    sizes: tokio::sync::Mutex<Sizes>,
    full: Mutex<Option<Full>>,
}

#[derive(Debug)]
struct Sizes {
    /// Bytes for which there is memory.
    held: usize,
    /// Bytes of the present result.
    used: usize,
}

impl ResultMemory {
    /// `free` bytes need no memory of the run.
    pub fn new(memory: Option<RunMemory>, free: usize) -> Self {
        let sizes = tokio::sync::Mutex::new(Sizes { held: free, used: 0 });
        Self { inner: Arc::new(Inner { memory, sizes, full: Mutex::default() }), is_part: false }
    }

    /// The same memory, for one of several calls that are made at the same time. Together they have one result.
    pub(crate) fn part(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), is_part: true }
    }

    /// Begins with another result, whose first bytes take the memory of the one before.
    pub async fn begin(&self) {
        if !self.is_part {
            self.inner.sizes.lock().await.used = 0;
        }
    }

    /// Takes memory for `bytes` more of the present result, and waits for it if it has to.
    ///
    /// # Errors
    /// [`Full`] when no memory became free in time. [`Self::check`] tells it later too.
    pub async fn take(&self, bytes: usize) -> Result<(), Full> {
        let Inner { memory, sizes, full } = &*self.inner;
        let mut sizes = sizes.lock().await;
        sizes.used += bytes;
        let Some(missing) = sizes.used.checked_sub(sizes.held).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let step = missing.max(STEP);
        if let Some(memory) = memory
            && let Err(why) = memory.grow(step).await
        {
            *full.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            return Err(why);
        }
        sizes.held += step;
        Ok(())
    }

    /// Whether everything got its memory.
    ///
    /// # Errors
    /// When no memory became free in time. The error must end the run.
    pub fn check(&self) -> Result<(), NoMemory> {
        let full = *self.inner.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.map_or(Ok(()), |full| Err(NoMemory(full)))
    }

    /// Releases all but `bytes`, which the run keeps.
    pub async fn keep(&self, bytes: usize) {
        let mut sizes = self.inner.sizes.lock().await;
        if let (Some(memory), Some(spare)) = (&self.inner.memory, sizes.held.checked_sub(bytes)) {
            memory.shrink(spare);
            sizes.held = bytes;
        }
    }
}

impl BodyMemory for ResultMemory {
    fn take(&self, bytes: usize) -> BoxFuture<'_, bool> {
        async move { Self::take(self, bytes).await.is_ok() }.boxed()
    }
}
