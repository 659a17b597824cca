//! Sessions that are over: they end at their servers where they may still be good, and their rows go.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Vault;
use crate::clock::{Clock, Timestamp};
use crate::store::{Db, StoreError, dpop_keys, oauth_sessions, oauth_states};

/// Between sweeps: logins that nobody came back from are gone within a minute. Each sweep asks an index.
const PERIOD: Duration = Duration::from_mins(1);

/// How long a provisioned key waits for its session.
pub const PROVISION_SECONDS: i64 = 3600;

const DAY_SECONDS: i64 = 86_400;

/// How long a session that can't be renewed is kept after its end, so that its application hears `token_expired`.
const EXPIRED_SECONDS: i64 = 7 * DAY_SECONDS;

/// A session that nobody renewed for this long can't be renewed any more: authorization servers let refresh tokens live
/// half a year at most.
const IDLE_SECONDS: i64 = 200 * DAY_SECONDS;

/// How long a login may take from its session with the PDS to that of the browser, which is made next.
const LOGIN_SECONDS: i64 = 300;

/// Rows removed in one statement: short enough that requests that write don't notice.
const STEP: u32 = 1000;

/// Sessions ended at their servers in one sweep.
const ENDINGS: u32 = 200;

/// Sweeps at once and every minute until `stop`.
pub async fn run(db: Db, vault: Vault, clock: Clock, stop: CancellationToken) {
    loop {
        if let Err(error) = sweep(&db, &vault, clock.now()).await {
            tracing::warn!(%error, "sessions that are over could not be removed; the next sweep is in a minute");
        }
        if stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

/// One sweep.
///
/// # Errors
/// When the database fails; what was removed until then stays removed.
pub async fn sweep(db: &Db, vault: &Vault, now: Timestamp) -> Result<(), StoreError> {
    let ago = |seconds: i64| now.plus_seconds(-seconds);
    oauth_states::prune(db, now).await?;
    // A browser's session ends with its cookie, and the session with the PDS with it: there too.
    for id in oauth_sessions::unneeded(db, now, ago(LOGIN_SECONDS), ENDINGS).await? {
        vault.end(&id).await?;
    }
    while oauth_sessions::delete_over(db, ago(EXPIRED_SECONDS), ago(IDLE_SECONDS), STEP).await?
        == u64::from(STEP)
    {}
    while dpop_keys::delete_unused(db, ago(PROVISION_SECONDS), STEP).await? == u64::from(STEP) {}
    Ok(())
}
