//! Looks up where a repo is, and which limits the queues by host have.

use std::time::Duration;

use super::failure::{ErrorKind, Failure};
use super::hosts::Bounds;
use crate::config::backfill::CONCURRENT_RESOLUTION;
use crate::identity::{IdentityError, MIN_REFRESH_SECONDS, Resolver};
use crate::settings::backfill::BackfillSettings;
use belvedere_protocol::atproto::Did;

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

/// A resolver whose look-ups take no permits from callers. Has permits for the most look-ups that an admin may set.
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

/// Looks up the DID again when its PDS does not give the repo: the account may have moved since, even if its document was
/// fetched just before. Returns the origin of its new PDS.
///
/// # Errors
/// The failure, if the account did not move. It says nothing about the account's status if that is not certain. While
/// the document can't be fetched, the failure of the look-up, which another attempt may overcome.
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
    match resolver.no_older_than(did, 0).await {
        Ok(document) => document.pds().filter(|pds| *pds != endpoint).map(str::to_owned).ok_or(failure),
        // A failed look-up is not repeated before.
        Err(error @ IdentityError::Unavailable(_)) => {
            let failure = Failure::of_identity(&error);
            let repeated = Duration::from_secs(MIN_REFRESH_SECONDS.unsigned_abs());
            Err(Failure { wait: Some(failure.wait.unwrap_or_default().max(repeated)), ..failure })
        }
        Err(error) if error.is_temporary() || matches!(error, IdentityError::Tombstoned) => {
            Err(Failure::of_identity(&error))
        }
        Err(_) => Err(Failure { status: None, ..failure }),
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::repos::{Fault, RepoNetwork, Site};

    use super::*;
    use belvedere_base::clock::{Clock, Timestamp};
    use belvedere_storage::store::index::AccountStatus;
    use belvedere_web::net::testing::loopback;

    #[tokio::test]
    async fn an_account_is_said_not_to_have_moved_only_by_a_document_fetched_after_its_pds_refused() {
        const DID: &str = "did:plc:abcdefghijklmnopqrstuvwx";
        let network = RepoNetwork::start(2).await;
        network.account(DID, 0);
        let (did, clock) = (Did::try_from(DID).unwrap(), Clock::fixed(Timestamp(0)));
        let resolver = Resolver::new(loopback(), network.url().parse().unwrap(), clock.clone());
        let (old, new) = (network.pds_url(0), network.pds_url(1));
        let refused =
            |kind| Failure { status: Some(AccountStatus::TakenDown), ..Failure::new(kind, "refused") };
        let moved = async |kind| moved(&resolver, &old, &did, refused(kind)).await;
        assert_eq!(resolver.resolve(&did).await.unwrap().pds(), Some(&*old));
        assert_eq!(moved(ErrorKind::RepoTakendown).await, Err(refused(ErrorKind::RepoTakendown)));

        network.account(DID, 1);
        let fails =
            |status, wait: &str| Fault::Status(status, vec![("retry-after", wait.to_owned())], String::new());
        for (n, (fault, kind)) in [
            (fails(503, "1"), ErrorKind::PdsServerError),
            (Fault::Html, ErrorKind::RepoTakendown),
            (fails(429, "60"), ErrorKind::RateLimited),
        ]
        .into_iter()
        .enumerate()
        {
            clock.set(Timestamp(0).plus_seconds(31 * n as i64));
            network.faults(Site::Relay, move |_| Some(fault.clone()));
            let failure = moved(ErrorKind::RepoTakendown).await.unwrap_err();
            assert_eq!(
                (failure.kind, failure.status),
                (kind, None),
                "the old document says nothing any more"
            );
            if kind.is_retryable() {
                assert!(failure.wait >= Some(Duration::from_secs(30)), "{failure:?}");
            }
        }

        network.repair();
        let resolver = Resolver::new(loopback(), network.url().parse().unwrap(), clock.clone());
        for kind in [ErrorKind::RepoNotFound, ErrorKind::RepoDeactivated, ErrorKind::RepoTakendown] {
            network.account(DID, 0);
            resolver.no_older_than(&did, 0).await.unwrap();
            network.account(DID, 1);
            let failure = super::moved(&resolver, &old, &did, refused(kind)).await;
            assert_eq!(failure, Ok(new.clone()), "{kind:?}");
        }
        let timeout = Err(refused(ErrorKind::Timeout));
        assert_eq!(super::moved(&resolver, &old, &did, refused(ErrorKind::Timeout)).await, timeout);
    }

    #[test]
    fn only_the_directory_has_more_max_wait_than_a_pds() {
        let did = |text: &str| Did::try_from(text).unwrap();
        let (plc, web) = (did("did:plc:abcdefghijklmnopqrstuvwx"), did("did:web:one.example"));
        assert_eq!((host_of(&plc), host_of(&web)), (DIRECTORY, "one.example"));
        assert_eq!(limits(host_of(&plc), 3), (MAX_DIRECTORY_FAILURES, MAX_DIRECTORY_FAILURES));
        assert_eq!(limits(host_of(&plc), 20), (20, MAX_DIRECTORY_FAILURES));
        assert_eq!(limits(host_of(&web), 3), (3, MAX_HOST_FAILURES));
    }
}
