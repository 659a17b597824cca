//! Ending the sessions of an API client that is deleted, at their authorization servers too. Its rows go with it, by
//! cascade, so what revoking takes is read before and the servers are called after.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::{RenewError, Vault};
use crate::oauth::ClientIdentity;
use crate::store::StoreError;
use crate::store::api_client_keys::{self, ClientKeyRow};
use crate::store::oauth_sessions::{self, SessionRow};

/// Sessions revoked for one deletion, those used last first. Each is a kilobyte in memory until it is done; the tokens of
/// more run out by themselves.
const MAX_SESSIONS: i64 = 5_000;

/// Servers called at once: enough that a thousand sessions take seconds, few enough to go unnoticed beside other calls.
const TOGETHER: usize = 8;

/// After this the rest is left to run out. Shutdown waits for it.
const MAX_TIME: Duration = Duration::from_mins(1);

/// What it takes to revoke the sessions of a client and its children once their rows are gone.
#[derive(Debug)]
pub struct Revocations {
    sessions: Vec<SessionRow>,
    /// The clients' own keys, by id: authorization servers ask for assertions.
    keys: HashMap<String, ClientKeyRow>,
}

impl Vault {
    /// Reads what [`Self::revoke_all`] needs. To be called before the client is deleted.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn revocations(&self, client_id: &str) -> Result<Revocations, StoreError> {
        let sessions = oauth_sessions::of_client(self.db(), client_id, MAX_SESSIONS).await?;
        let keys = api_client_keys::with_children(self.db(), client_id).await?;
        Ok(Revocations { sessions, keys: keys.into_iter().map(|key| (key.kid.clone(), key)).collect() })
    }

    /// Revokes the sessions in the background, as far as their servers let us. To be called after the deletion.
    pub fn revoke_all(&self, of: Revocations) {
        if of.sessions.is_empty() {
            return;
        }
        // Servers fetch the client's public keys to check an assertion.
        for key in of.keys.values() {
            let mut keys = self.departing().get(&key.client_id).unwrap_or_default();
            keys.push(key.public_jwk.clone());
            self.departing().insert(key.client_id.clone(), keys);
        }
        let vault = self.clone();
        self.tasks().spawn(async move {
            let total = of.sessions.len();
            let next = AtomicUsize::new(0);
            let workers = (0..TOGETHER).map(|_| vault.revoke_next(&of, &next));
            let ended = async { join_all(workers).await.into_iter().sum::<usize>() };
            if let Ok(ended) = tokio::time::timeout(MAX_TIME, ended).await {
                tracing::info!(total, ended, "sessions of a deleted API client were revoked");
            } else {
                tracing::warn!(total, "sessions of a deleted API client are left to run out");
            }
            for key in of.keys.values() {
                vault.departing().invalidate(&key.client_id);
            }
        });
    }

    /// Public keys, as JSON text, of a client that is deleted and whose sessions are being revoked.
    pub fn departing_keys(&self, client_id: &str) -> Vec<String> {
        self.departing().get(client_id).unwrap_or_default()
    }

    /// Revokes one session after the other, each that no other worker has taken; how many it could.
    async fn revoke_next(&self, of: &Revocations, next: &AtomicUsize) -> usize {
        let mut ended = 0;
        while let Some(row) = of.sessions.get(next.fetch_add(1, Ordering::Relaxed)) {
            ended += usize::from(self.revoke_departed(row, &of.keys).await);
        }
        ended
    }

    async fn revoke_departed(&self, row: &SessionRow, keys: &HashMap<String, ClientKeyRow>) -> bool {
        let revoked = async {
            let key = match &row.assertion_kid {
                Some(kid) => {
                    let key = keys.get(kid).ok_or(RenewError::NoClientKey)?;
                    Some((kid.clone(), self.open_client_key(kid, &key.sealed)?))
                }
                None => None,
            };
            self.revoke_as(row, &ClientIdentity { client_id: row.oauth_client_id.clone(), key }).await
        };
        match revoked.await {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(session = row.id, %error, "a session could not be revoked at its server");
                false
            }
        }
    }
}
