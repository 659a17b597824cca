//! Gives accounts the status that their PDS reports. Only catch-ups do: at other times the stream's account events
//! decide, and during a gap they were missed.

use super::failure::Failure;
use super::repo::ReadError;
use super::repo_reader::RepoReader;
use super::request::Server;
use belvedere_protocol::atproto::{Did, rev};
use belvedere_storage::store::backfill;
use belvedere_storage::store::index::{AccountChange, AccountStatus};

/// Maximum number of requests to a PDS for a status that keeps changing.
const MAX_LOOKS: u32 = 3;

/// Stores the status of an account whose PDS gives its repo, or says why it does not. Returns the status that the index
/// had before; `None` when the index never had records of the account.
///
/// The PDS is asked again after the commit: an event of the stream that was committed just before may have been newer
/// than the answer.
pub(super) async fn fold(
    job: &RepoReader,
    server: &Server<'_>,
    did: &Did,
    mut status: AccountStatus,
) -> Result<Option<AccountStatus>, ReadError> {
    let before = backfill::account_status(&job.db, did).await?;
    let mut known = before;
    for _ in 0..MAX_LOOKS {
        if !known.is_some_and(|known| replaces(status, known)) {
            break;
        }
        store_status(job, did, status).await?;
        known = Some(status);
        status = match job.or_stop(server.latest_rev(did)).await? {
            Ok(_) => AccountStatus::Active,
            Err(Failure { status: Some(status), .. }) => status,
            Err(_) => break,
        };
    }
    Ok(before)
}

/// Hides an account whose PDS does not give its repo. Other failures are returned.
pub(super) async fn hide(
    job: &RepoReader,
    server: &Server<'_>,
    did: &Did,
    failure: Failure,
) -> Result<(), ReadError> {
    match failure.status {
        Some(AccountStatus::Deleted) => remove_gone(job, did, failure).await,
        Some(status) if job.changed_since.is_some() => fold(job, server, did, status).await.map(drop),
        _ => Err(failure.into()),
    }
}

/// Deletes an account whose DID is tombstoned. Other failures are returned.
pub(super) async fn remove_gone(job: &RepoReader, did: &Did, failure: Failure) -> Result<(), ReadError> {
    if failure.status != Some(AccountStatus::Deleted) || job.changed_since.is_none() {
        return Err(failure.into());
    }
    store_status(job, did, AccountStatus::Deleted).await
}

async fn store_status(job: &RepoReader, did: &Did, status: AccountStatus) -> Result<(), ReadError> {
    // A deletion removes what was committed before it.
    let rev = rev::highest_at(job.clock.now()).unwrap_or_default();
    let change = AccountChange { did: did.clone(), status, rev };
    job.writer.submit_account(change).await.map_err(|_| ReadError::Uncommitted)
}

/// Whether a status that a PDS reports replaces the one in the index. Being taken down or suspended may be the relay's
/// decision, of which the PDS knows nothing: only an event of the stream ends it.
fn replaces(reported: AccountStatus, known: AccountStatus) -> bool {
    use AccountStatus::{Active, Deactivated, Deleted};
    match (reported, known) {
        (Active, known) => matches!(known, Deactivated | Deleted),
        (_, Deleted) => false,
        // Nothing is gained by replacing one reason with a weaker one.
        (Deactivated, known) => known == Active,
        (reported, known) => reported != known,
    }
}

#[cfg(test)]
mod tests {
    use super::AccountStatus::{Active, Deactivated, Deleted, Suspended, TakenDown};
    use super::*;

    #[test]
    fn a_pds_hides_accounts_and_shows_those_that_it_had_hidden() {
        for (reported, known, expected) in [
            (Active, Active, false),
            (Active, Deactivated, true),
            (Active, Deleted, true),
            (Active, TakenDown, false),
            (Active, Suspended, false),
            (Deactivated, Active, true),
            (Deactivated, Deactivated, false),
            (Deactivated, TakenDown, false),
            (Deactivated, Deleted, false),
            (TakenDown, Active, true),
            (TakenDown, Deactivated, true),
            (TakenDown, TakenDown, false),
            (TakenDown, Deleted, false),
            (Suspended, Active, true),
        ] {
            assert_eq!(replaces(reported, known), expected, "{reported:?} instead of {known:?}");
        }
    }
}
