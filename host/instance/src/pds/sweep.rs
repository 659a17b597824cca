//! Removes expired sessions, pending flows and unused DPoP keys, and revokes sessions that are no longer needed at
//! their authorization servers.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Vault;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_storage::store::{Db, StoreError, dpop_keys, oauth_sessions, oauth_states, revocations};

/// Time between sweeps. Each is a few indexed queries.
const PERIOD: Duration = Duration::from_mins(1);

/// Time for which a provisioned DPoP key is kept without a session, in seconds.
pub const PROVISION_SECONDS: i64 = 3600;

const DAY_SECONDS: i64 = 86_400;

/// Time for which a session that can't be renewed is kept after it has expired, so that its application gets
/// `token_expired`.
const EXPIRED_SECONDS: i64 = 7 * DAY_SECONDS;

/// A session that was not renewed for this long can't be renewed: refresh tokens are valid for half a year at most.
const IDLE_SECONDS: i64 = 200 * DAY_SECONDS;

/// Maximum time of a login between storing the session with the PDS and creating the browser's session.
const LOGIN_SECONDS: i64 = 300;

/// Rows deleted in one statement, so that other writes don't wait long.
const BATCH_ROWS: u32 = 1000;

/// Sessions that wait for their revocation, each of about two kilobytes. Servers that don't answer can't fill the
/// database with more; the tokens of further sessions expire.
const MAX_REVOCATIONS: i64 = 100_000;

/// Sessions revoked in one sweep.
const MAX_REVOKED: u32 = 200;

/// Sweeps immediately and then every minute until `stop` is cancelled.
pub async fn run(db: Db, vault: Vault, clock: Clock, stop: CancellationToken) {
    loop {
        if let Err(error) = sweep(&db, &vault, clock.now()).await {
            tracing::warn!(%error, "expired sessions could not be removed; the next sweep is in a minute");
        }
        if stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

/// Runs one sweep.
///
/// # Errors
/// When the database fails; earlier deletions of the sweep stay.
pub async fn sweep(db: &Db, vault: &Vault, now: Timestamp) -> Result<(), StoreError> {
    let ago = |seconds: i64| now.plus_seconds(-seconds);
    oauth_states::prune(db, now).await?;
    let dropped = revocations::prune(db, MAX_REVOCATIONS).await?;
    if dropped > 0 {
        tracing::warn!(
            dropped,
            "too many ended sessions wait to be revoked; the tokens of some expire instead"
        );
    }
    // When a browser's session has expired, its session with the PDS is revoked too.
    for id in oauth_sessions::unused(db, now, ago(LOGIN_SECONDS), MAX_REVOKED).await? {
        vault.end(&id).await?;
    }
    while oauth_sessions::delete_unusable(db, ago(EXPIRED_SECONDS), ago(IDLE_SECONDS), BATCH_ROWS).await?
        == u64::from(BATCH_ROWS)
    {}
    while dpop_keys::delete_unused(db, ago(PROVISION_SECONDS), BATCH_ROWS).await? == u64::from(BATCH_ROWS) {}
    Ok(())
}
