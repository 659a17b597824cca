//! The memory of a call's instance, which is a part of that of all runs and calls.

use crate::fair_share::{FairPool, Place, Tenant};
use crate::sandbox::PAGE;

/// What a call has taken. It does not wait for more: a script that calls a plugin has memory itself, for which others may
/// wait.
#[derive(Debug)]
pub(super) struct CallMemory {
    pool: FairPool,
    tenant: Tenant,
    taken: Option<Place>,
}

/// Ends a call for which there was no memory.
#[derive(Debug, thiserror::Error)]
#[error("no memory is free for the call")]
pub(in crate::plugins) struct NoMemory;

impl CallMemory {
    pub(super) fn new(pool: FairPool, tenant: Tenant) -> Self {
        Self { pool, tenant, taken: None }
    }

    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let pages = bytes.div_ceil(PAGE);
        if pages == 0 {
            return Ok(());
        }
        let more = self.pool.take(&self.tenant, pages).ok_or(NoMemory)?;
        match &mut self.taken {
            Some(taken) => taken.absorb(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}
