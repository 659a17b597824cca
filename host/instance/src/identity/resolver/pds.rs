//! The PDS of an account when its document can't be had, or not in time.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Resolved, Resolver};
use crate::identity::IdentityError;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Full;

/// Time that a call with a session waits for a recent document while the PDS of the last one is known.
const RECENT_MAX_WAIT: Duration = Duration::from_millis(1_500);

/// Maximum age of the last document, in seconds, while the look-up is slow or this server may not or can't send it: then
/// the directory does answer others, and the account may have moved.
const LIMITED_SECONDS: i64 = 300;

/// The PDS in the last document of a DID, and when that was fetched.
#[derive(Clone, Debug)]
pub(super) struct LastPds {
    pub(super) origin: Arc<str>,
    pub(super) fetched_at: Timestamp,
}

impl Resolver {
    /// The PDS of a DID by a document fetched at most `seconds` ago; `None` when it names none. While a newer document
    /// can't be fetched, by the last one of a day: an account can't move without the directory, and an identity event
    /// drops what is known. While the look-up is limited or slow, by the last one of some minutes.
    ///
    /// # Errors
    /// As [`Self::resolve`], when no such document is known either.
    pub async fn recent_pds(&self, did: &Did, seconds: i64) -> Result<Option<Arc<str>>, IdentityError> {
        if let Some(entry) = self.inner.cache.get(did).await
            && let Some(Ok(document)) = self.inner.recent(&entry, seconds)
        {
            return Ok(document.pds().map(Arc::from));
        }
        let (later, sought) = (self.clone(), did.clone());
        let look_up = async move { later.no_older_than(&sought, seconds).await };
        let result = match in_time(look_up, RECENT_MAX_WAIT).await {
            Ok(result) => result,
            Err(running) => match self.pds_of_minutes(did).await {
                Some(pds) => return Ok(Some(pds)),
                None => running.await.unwrap_or(Err(FAILED)),
            },
        };
        let last = match &result {
            Ok(document) => return Ok(document.pds().map(Arc::from)),
            Err(IdentityError::Unavailable(_)) => self.last_known_pds(did).await,
            Err(IdentityError::RateLimited(_) | IdentityError::Busy(_) | IdentityError::NotCached) => {
                self.pds_of_minutes(did).await
            }
            Err(_) => None,
        };
        match (last, result) {
            (None, Err(error)) => Err(error),
            (last, _) => Ok(last),
        }
    }

    /// The PDS of a DID by its document, if that can be had within `max_wait`, else by its last document. For readers
    /// that a PDS of yesterday serves too.
    pub async fn pds_within(&self, did: &Did, max_wait: Duration) -> Option<Arc<str>> {
        let (later, sought) = (self.clone(), did.clone());
        match in_time(async move { later.resolve(&sought).await }, max_wait).await {
            Ok(Ok(document)) => document.pds().map(Arc::from),
            Ok(Err(error)) if !error.is_temporary() => None,
            _ => self.last_known_pds(did).await,
        }
    }

    /// The PDS of a DID by its last document, which may have changed within a day without an identity event.
    pub(in crate::identity) async fn last_known_pds(&self, did: &Did) -> Option<Arc<str>> {
        self.inner.pds.get(did).await.map(|last| last.origin)
    }

    async fn pds_of_minutes(&self, did: &Did) -> Option<Arc<str>> {
        let last = self.inner.pds.get(did).await?;
        let is_recent = self.inner.clock.now() < last.fetched_at.plus_seconds(LIMITED_SECONDS);
        is_recent.then_some(last.origin)
    }
}

/// The result of a look-up whose task failed. It can't: look-ups don't panic.
const FAILED: IdentityError = IdentityError::Busy(Full::Pool);

/// Runs a look-up in a task of its own, so that a slow one still fills the cache after the caller stopped waiting.
///
/// # Errors
/// The task, when it has not ended within `max_wait`.
async fn in_time(
    look_up: impl Future<Output = Resolved> + Send + 'static,
    max_wait: Duration,
) -> Result<Resolved, JoinHandle<Resolved>> {
    let mut task = tokio::spawn(look_up);
    match tokio::time::timeout(max_wait, &mut task).await {
        Ok(joined) => Ok(joined.unwrap_or(Err(FAILED))),
        Err(_) => Err(task),
    }
}
