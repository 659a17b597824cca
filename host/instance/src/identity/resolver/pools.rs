//! The resolvers of other purposes, which have the same caches and other pools of look-ups.

use std::sync::Arc;

use super::Resolver;
use crate::identity::IdentityError;
use crate::identity::fetches::LookupPools;

impl Resolver {
    /// The same documents, for tasks that look up thousands of DIDs, at most `permits` at a time: they take no permits from
    /// callers.
    #[must_use]
    pub fn for_tasks(&self, permits: usize) -> Self {
        let pools = Some(Arc::new(LookupPools::for_tasks(permits)));
        Self { pools: pools.clone(), reads: pools, ..self.clone() }
    }

    /// The same documents, for reads of what any caller may name: they take no permits from logins.
    #[must_use]
    pub fn for_reads(&self) -> Self {
        Self { pools: self.reads.clone(), ..self.clone() }
    }

    /// The same documents and handles, for runs that may not use the network: one that is not cached is an error.
    #[must_use]
    pub fn without_look_ups(&self) -> Self {
        Self { pools: None, reads: None, ..self.clone() }
    }

    /// Whether it looks up what is not cached.
    pub(crate) fn looks_up(&self) -> bool {
        self.pools.is_some()
    }

    /// # Errors
    /// When nothing may be looked up. It is checked before a look-up that others may join.
    pub(in crate::identity) fn pools(&self) -> Result<&LookupPools, IdentityError> {
        self.pools.as_deref().ok_or(IdentityError::NotCached)
    }
}
