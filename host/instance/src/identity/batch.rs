//! The handles of many accounts at once, each verified both ways: the account's DID document names the handle, and the
//! handle resolves to the account.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout, timeout_at};

use super::handles::OWNER_MAX_WAIT;
use super::resolver::Dated;
use super::{HandleError, Resolver};
use belvedere_protocol::atproto::{Did, Handle};

/// Look-ups of one batch that are in progress at the same time: half of the permits that reads have, so that one batch
/// leaves room for the reads of others.
const CONCURRENT: usize = 8;

/// The handles of a batch of accounts.
#[derive(Debug, Default)]
pub struct Handles {
    /// By account. One without a verified handle is in neither list.
    pub verified: HashMap<Did, String>,
    /// Accounts of which nothing can be said now.
    pub failed: Vec<(Did, HandleError)>,
    /// The documents that named these handles, or none. The cache may have lost them since.
    pub(crate) documents: Vec<(Did, Dated)>,
}

impl Resolver {
    /// The verified handles of accounts, from the caches if possible. `pay` is called before the domain of a handle is
    /// asked, which happens only when it returns true. Look-ups that take longer than `max_wait` fail.
    pub async fn handles(
        &self,
        dids: &[Did],
        pay: impl Fn(&Handle) -> bool + Send + Sync,
        max_wait: Duration,
    ) -> Handles {
        let (deadline, pay) = (Instant::now() + max_wait, &pay);
        let look_up = async |did: &Did| {
            let found = timeout_at(deadline, self.document_and_handle(did, pay)).await;
            (did.clone(), found.unwrap_or(Err(HandleError::Slow)))
        };
        let mut handles = Handles::default();
        let mut look_ups = stream::iter(dids).map(look_up).buffer_unordered(CONCURRENT);
        while let Some((did, found)) = look_ups.next().await {
            match found {
                Ok(Some((document, handle))) => {
                    handles.documents.push((did.clone(), document));
                    handles.verified.extend(handle.map(|handle| (did, handle)));
                }
                Ok(None) => {}
                Err(error) => handles.failed.push((did, error)),
            }
        }
        handles
    }

    /// The document of an account and its verified handle, if it has one; `None` when the account does not exist.
    async fn document_and_handle(
        &self,
        did: &Did,
        pay: impl Fn(&Handle) -> bool,
    ) -> Result<Option<(Dated, Option<String>)>, HandleError> {
        let reads = self.for_reads();
        let document = match timeout(OWNER_MAX_WAIT, reads.resolve_dated(did)).await {
            Ok(Ok(document)) => document,
            Ok(Err(error)) if error.is_temporary() => return Err(error.into()),
            Ok(Err(_)) => return Ok(None),
            Err(_) => return Err(HandleError::Slow),
        };
        let handle = self.verified_handle(did, &document, pay).await?;
        Ok(Some((document, handle)))
    }

    /// The handle that a document names; `None` when it names none, or the handle is not the account's.
    async fn verified_handle(
        &self,
        did: &Did,
        document: &Dated,
        pay: impl Fn(&Handle) -> bool,
    ) -> Result<Option<String>, HandleError> {
        let Some(handle) = document.document.handle().and_then(|handle| Handle::try_from(handle).ok()) else {
            return Ok(None);
        };
        if self.asks_domain_of(&handle) && !pay(&handle) {
            return Err(HandleError::TooMany);
        }
        match self.owner(handle.as_str()).await {
            Ok(owner) => Ok((owner == *did).then(|| handle.as_str().to_owned())),
            Err(error) if error.is_temporary() => Err(error),
            Err(_) => Ok(None),
        }
    }
}
