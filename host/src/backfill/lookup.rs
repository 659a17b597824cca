//! Looks up where a repo is, and which limits the queues by host have.

use super::failure::{ErrorKind, Failure};
use super::hosts::Bounds;
use crate::atproto::Did;
use crate::config::backfill::CONCURRENT_RESOLUTION;
use crate::identity::{IdentityError, Resolver};
use crate::settings::backfill::BackfillSettings;

/// Failures in a row after which a PDS is given up (indexing.md §5.3).
pub(super) const MAX_HOST_FAILURES: u32 = 5;

/// Failures in a row after which the directory of DIDs is given up. Every repo needs it, so it has more time: the
/// cooldowns add up to six minutes.
const MAX_DIRECTORY_FAILURES: u32 = 10;

/// The queue of look-ups at the directory; those of a did:web are queued under its host.
const DIRECTORY: &str = "plc";

/// The queue of a DID's look-up.
pub(super) fn host_of(did: &Did) -> &str {
    if did.method() == "plc" { DIRECTORY } else { did.identifier() }
}

/// The attempts at a look-up, and the failures in a row after which its host is given up.
pub(super) fn limits(host: &str, max_attempts: u32) -> (u32, u32) {
    if host == DIRECTORY {
        (max_attempts.max(MAX_DIRECTORY_FAILURES), MAX_DIRECTORY_FAILURES)
    } else {
        (max_attempts, MAX_HOST_FAILURES)
    }
}

/// A resolver whose look-ups take no places from callers. Has places for the most look-ups that an admin may set.
pub(super) fn resolver_of_jobs(resolver: &Resolver) -> Resolver {
    resolver.for_tasks(*CONCURRENT_RESOLUTION.range.end() as usize)
}

/// The limits of look-ups.
pub(super) fn directory_bounds(settings: &BackfillSettings) -> Bounds {
    let lookups = settings.concurrent_resolution as usize;
    Bounds { hosts: lookups, units_per_host: lookups, max_queued: usize::MAX }
}

/// The limits of requests to PDSs.
pub(super) fn pds_bounds(settings: &BackfillSettings, max_queued: usize) -> Bounds {
    Bounds {
        hosts: settings.concurrent_pds as usize,
        units_per_host: settings.concurrent_dids_per_pds as usize,
        max_queued,
    }
}

/// The origin of a DID's PDS. A failed look-up, which is cached for up to a minute, is repeated; with `afresh`, any is.
pub(super) async fn pds_of(resolver: &Resolver, did: &Did, afresh: bool) -> Result<String, Failure> {
    if afresh || resolver.known(did).await.is_some_and(|known| known.is_err()) {
        resolver.invalidate(did).await;
    }
    let document = resolver.resolve(did).await.map_err(|error| Failure::of_identity(&error))?;
    let none = || Failure::new(ErrorKind::DidDocInvalid, "the DID document names no PDS");
    document.pds().map(str::to_owned).ok_or_else(none)
}

/// Looks up the DID again when its PDS does not give the repo: the account may have moved since. Returns the origin of
/// its new PDS.
///
/// # Errors
/// The failure, if the account did not move. It says nothing about the account's status if that is not certain.
pub(super) async fn moved(
    resolver: &Resolver,
    endpoint: &str,
    did: &Did,
    failure: Failure,
) -> Result<String, Failure> {
    if !matches!(
        failure.kind,
        ErrorKind::RepoNotFound | ErrorKind::RepoDeactivated | ErrorKind::RepoTakendown
    ) {
        return Err(failure);
    }
    match resolver.refresh(did).await {
        Ok(document) => document.pds().filter(|pds| *pds != endpoint).map(str::to_owned).ok_or(failure),
        Err(error @ IdentityError::Tombstoned) => Err(Failure::of_identity(&error)),
        Err(_) => Err(Failure { status: None, ..failure }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directory_has_more_patience_than_a_pds() {
        let did = |text: &str| Did::try_from(text).unwrap();
        let (plc, web) = (did("did:plc:abcdefghijklmnopqrstuvwx"), did("did:web:one.example"));
        assert_eq!((host_of(&plc), host_of(&web)), (DIRECTORY, "one.example"));
        assert_eq!(limits(host_of(&plc), 3), (MAX_DIRECTORY_FAILURES, MAX_DIRECTORY_FAILURES));
        assert_eq!(limits(host_of(&plc), 20), (20, MAX_DIRECTORY_FAILURES));
        assert_eq!(limits(host_of(&web), 3), (3, MAX_HOST_FAILURES));
    }
}
