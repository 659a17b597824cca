//! Ends sessions, and revokes them at their authorization servers in the background: at once, and again while a server
//! fails (docs/adr/0040). The end of a session queues its revocation in the same transaction, so any host revokes it,
//! also after a restart.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::{RenewError, Vault};
use crate::oauth::ClientCredentials;
use belvedere_storage::store::revocations::{self, RevocationRow, Window};
use belvedere_storage::store::{
    StoreError, api_client_keys, api_clients, instance_oauth_keys, linked_repos, oauth_sessions,
};

/// Time between two looks for revocations that other hosts have queued, or that are to be repeated.
const PERIOD: Duration = Duration::from_secs(2);

/// Revocations that are read together. The next ones are read when these have ended, so together with [`OF_ISSUER`] it
/// bounds how long a slow server delays the others.
const BATCH: u32 = 64;

/// Revocations of one authorization server in a batch.
const OF_ISSUER: u32 = 8;

/// Concurrent revocations: a thousand sessions take seconds, without noticeable load.
const CONCURRENT: usize = 16;

/// After this time another host repeats an attempt whose end is not stored, in seconds: longer than an attempt with its
/// retries.
const ATTEMPT_SECONDS: i64 = 120;

/// Time for which a revocation is repeated. Later the tokens have expired, or the server is gone.
const GIVE_UP_SECONDS: i64 = 86_400;

/// The same for the sessions of a deleted key, in seconds. Until then the key stays published, because authorization
/// servers accept it only then, and it may have leaked.
const KEY_GIVE_UP_SECONDS: i64 = 120;

/// Seconds between the first and the second attempt; each further time is four times as long.
const FIRST_PAUSE_SECONDS: i64 = 1;

/// Maximum seconds between two attempts.
const MAX_PAUSE_SECONDS: i64 = 6 * 3600;

impl Vault {
    /// Deletes a session, and revokes it in the background. Returns whether there was one.
    ///
    /// # Errors
    /// When the store can't be used.
    pub async fn end(&self, id: &str) -> Result<bool, StoreError> {
        let ended = oauth_sessions::end(self.db(), id, self.window(GIVE_UP_SECONDS)).await?;
        self.revocation_queued().notify_one();
        Ok(ended)
    }

    /// Like [`Self::end`], if the session is still one with this PDS: the user may have logged in again with the same
    /// key. Its linked repo becomes `needs_reauth`.
    ///
    /// # Errors
    /// When the store can't be used.
    pub(super) async fn end_at(&self, id: &str, pds: &str, why: &str) -> Result<bool, StoreError> {
        let ended = oauth_sessions::end_at(self.db(), id, pds, why, self.window(GIVE_UP_SECONDS)).await?;
        self.revocation_queued().notify_one();
        Ok(ended)
    }

    /// Deletes an API client and its children, and revokes their sessions in the background. Returns whether there was
    /// such a client.
    ///
    /// # Errors
    /// When the store can't be used.
    pub async fn delete_client(&self, client_id: &str) -> Result<bool, StoreError> {
        let deleted = api_clients::delete(self.db(), client_id, self.window(GIVE_UP_SECONDS)).await?;
        self.revocation_queued().notify_one();
        Ok(!deleted.is_empty())
    }

    /// Deletes one or all keys of an API client, and ends the sessions that began with them. Returns the numbers of
    /// deleted keys and sessions.
    ///
    /// # Errors
    /// When the store can't be used.
    pub async fn delete_client_keys(
        &self,
        client_id: &str,
        kid: Option<&str>,
    ) -> Result<(u64, u64), StoreError> {
        let window = self.window(KEY_GIVE_UP_SECONDS);
        let deleted = api_client_keys::revoke(self.db(), client_id, kid, window).await?;
        self.revocation_queued().notify_one();
        Ok(deleted)
    }

    /// The public keys, as JSON text, that are deleted and still needed to revoke a client's sessions.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn keys_of_revocations(&self, client_id: &str) -> Result<Vec<String>, StoreError> {
        revocations::public_keys(self.db(), client_id, self.clock().now()).await
    }

    fn window(&self, give_up_seconds: i64) -> Window {
        let now = self.clock().now();
        Window { due_at: now, give_up_at: now.plus_seconds(give_up_seconds) }
    }

    /// Revokes a batch of the sessions that are due. Returns how many were tried.
    async fn revoke_due(&self) -> Result<usize, StoreError> {
        let due = revocations::due(self.db(), self.clock().now(), BATCH, OF_ISSUER).await?;
        let count = due.len();
        let mut attempts = stream::iter(due).map(|row| self.attempt(row)).buffer_unordered(CONCURRENT);
        while let Some(attempt) = attempts.next().await {
            // The others go on: what was begun is not due again for minutes.
            if let Err(error) = attempt {
                tracing::warn!(%error, "the end of a revocation could not be stored; it is repeated");
            }
        }
        Ok(count)
    }

    async fn attempt(&self, row: RevocationRow) -> Result<(), StoreError> {
        let until = self.clock().now().plus_seconds(ATTEMPT_SECONDS);
        if !revocations::begin(self.db(), &row, until).await? {
            return Ok(());
        }
        let Err(error) = self.revoke(&row).await else {
            return self.forget(&row).await;
        };
        let again = self.clock().now().plus_seconds(pause_seconds(row.attempts));
        if is_final(&error) || again > row.give_up_at {
            tracing::warn!(session = row.id, issuer = row.issuer, %error, "a session could not be revoked; its tokens expire");
            return self.forget(&row).await;
        }
        tracing::info!(session = row.id, issuer = row.issuer, %error, "a session could not be revoked yet");
        revocations::postpone(self.db(), &row.id, again).await
    }

    /// Removes a revocation that is over, and the instance's own key that was kept for it.
    async fn forget(&self, row: &RevocationRow) -> Result<(), StoreError> {
        revocations::delete(self.db(), &row.id).await?;
        match (&row.assertion_kid, &row.sealed_client_key) {
            (Some(kid), None) => instance_oauth_keys::delete_revoked(self.db(), kid).await,
            _ => Ok(()),
        }
    }

    /// Ends all sessions that began with a revoked key of the instance, and revokes them in the background. The key is
    /// published until that is done. Returns the number of sessions.
    ///
    /// # Errors
    /// When the store can't be used. The next call, or retention, completes what is left.
    pub async fn end_sessions_of_own_key(&self, kid: &str) -> Result<usize, StoreError> {
        let (db, window) = (self.db(), self.window(KEY_GIVE_UP_SECONDS));
        linked_repos::mark_needs_reauth_of_key(db, kid, "the key of its session was deleted").await?;
        let mut count = 0;
        for session in oauth_sessions::of_own_key(db, kid).await? {
            count += usize::from(oauth_sessions::end(db, &session.id, window).await?);
        }
        instance_oauth_keys::delete_revoked(db, kid).await?;
        self.revocation_queued().notify_one();
        Ok(count)
    }

    /// Revokes a session at its authorization server.
    async fn revoke(&self, row: &RevocationRow) -> Result<(), RenewError> {
        let client_id = row.oauth_client_id.clone();
        let client = match (&row.assertion_kid, &row.sealed_client_key) {
            (None, _) => ClientCredentials { client_id, key: None },
            (Some(kid), Some(sealed)) => {
                ClientCredentials { client_id, key: Some((kid.clone(), self.open_client_key(kid, sealed)?)) }
            }
            (Some(kid), None) => self.own_revocation_credentials(kid, client_id).await?,
        };
        self.revoke_tokens(&row.issuer, &client, &row.key_id, &row.sealed, &row.sealed_key).await
    }
}

/// Revokes sessions until `stop` is cancelled.
pub async fn run(vault: Vault, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match stop.run_until_cancelled(vault.revoke_due()).await {
            None => return,
            Some(Ok(1..)) => continue,
            Some(Ok(0)) => {}
            Some(Err(error)) => tracing::warn!(%error, "ended sessions could not be revoked"),
        }
        let queued = tokio::time::timeout(PERIOD, vault.revocation_queued().notified());
        let _ = stop.run_until_cancelled(queued).await;
    }
}

/// Whether no later attempt can succeed: a key is missing or unreadable, or the server has ended the session.
fn is_final(error: &RenewError) -> bool {
    match error {
        RenewError::NoClientKey | RenewError::Sealed => true,
        RenewError::Flow(flow) => flow.is_invalid_grant(),
        _ => false,
    }
}

/// The time until the next attempt, after `attempts` failed ones before the last.
fn pause_seconds(attempts: i64) -> i64 {
    let power = u32::try_from(attempts).unwrap_or(u32::MAX);
    4_i64.saturating_pow(power).saturating_mul(FIRST_PAUSE_SECONDS).min(MAX_PAUSE_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::FlowError;

    #[test]
    fn attempts_become_rarer_and_end_after_a_day() {
        assert_eq!([0, 1, 2, 3, 7, 8, 1_000].map(pause_seconds), [1, 4, 16, 64, 16_384, 21_600, 21_600]);
        let mut at = 0;
        let repeated = (0..).take_while(|n| {
            at += pause_seconds(*n);
            at <= GIVE_UP_SECONDS
        });
        assert_eq!(repeated.count(), 10);
    }

    #[test]
    fn only_failures_that_may_pass_are_repeated() {
        let refused = |status, code: &str| RenewError::Flow(FlowError::Refused(status, code.to_owned()));
        assert!(is_final(&RenewError::Sealed) && is_final(&RenewError::NoClientKey));
        assert!(is_final(&refused(http::StatusCode::BAD_REQUEST, "invalid_grant")));
        assert!(!is_final(&refused(http::StatusCode::SERVICE_UNAVAILABLE, "")));
        // The server may have failed to fetch the client's metadata or keys.
        assert!(!is_final(&refused(http::StatusCode::BAD_REQUEST, "invalid_client")));
        assert!(!is_final(&RenewError::Store(StoreError::Corrupt("x".to_owned()))));
    }
}
