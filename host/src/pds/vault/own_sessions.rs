//! Ends the sessions of logins and linked repos that began with one of the instance's own keys, which is being deleted.

use std::time::Duration;

use futures_util::future::join_all;

use super::Vault;
use crate::store::{StoreError, instance_oauth_keys, linked_repos, oauth_sessions};

/// After this time the remaining sessions are left to expire, and the key is removed. Shutdown waits for it.
const MAX_TIME: Duration = Duration::from_mins(1);

impl Vault {
    /// Ends all sessions that began with a revoked key of the instance, and revokes them at their authorization servers
    /// in the background, where the key still has to be published; then removes the key. Returns the number of
    /// sessions.
    ///
    /// # Errors
    /// When the store can't be used. The next call, or retention, completes what is left.
    pub async fn end_sessions_of_own_key(&self, kid: &str) -> Result<usize, StoreError> {
        let db = &self.0.db;
        linked_repos::mark_needs_reauth_of_key(db, kid, "the key of its session was deleted").await?;
        let mut ended = Vec::new();
        for session in oauth_sessions::of_own_key(db, kid).await? {
            if oauth_sessions::delete(db, &session.id).await? {
                ended.push(session);
            }
        }
        let count = ended.len();
        let (vault, kid) = (self.clone(), kid.to_owned());
        self.0.tasks.spawn(async move {
            // The pool of revocations limits how many run at the same time.
            let all = join_all(ended.iter().map(|session| vault.revoke(session)));
            if tokio::time::timeout(MAX_TIME, all).await.is_err() {
                tracing::warn!(
                    kid,
                    "not all sessions of a deleted key were revoked in time; the others expire"
                );
            }
            if let Err(error) = instance_oauth_keys::delete_revoked(&vault.0.db, &kid).await {
                tracing::warn!(kid, %error, "a revoked key could not be removed; retention removes it");
            }
        });
        Ok(count)
    }
}
