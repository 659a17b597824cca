//! Revokes the sessions of a deleted API client at their authorization servers. The rows are deleted by cascade
//! together with the client, so everything that revoking needs is read before the deletion, and the servers are called
//! after it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::{RenewError, Vault};
use crate::oauth::ClientCredentials;
use crate::store::StoreError;
use crate::store::api_client_keys::{self, ClientKeyRow};
use crate::store::oauth_sessions::{self, SessionRow};

/// Sessions revoked for one deletion, those used last first. Each takes a kilobyte of memory until it is revoked; the
/// tokens of further sessions expire.
const MAX_SESSIONS: i64 = 5_000;

/// Concurrent revocations: a thousand sessions take seconds, without noticeable load.
const MAX_CONCURRENT: usize = 8;

/// After this time the remaining sessions are left to expire. Shutdown waits for the revocations.
const MAX_TIME: Duration = Duration::from_mins(1);

/// Everything that is needed to revoke the sessions of a client and its children after their rows are deleted.
#[derive(Debug)]
pub struct Revocations {
    sessions: Vec<SessionRow>,
    /// The clients' keys by id, for client assertions.
    keys: HashMap<String, ClientKeyRow>,
}

impl Vault {
    /// Reads what [`Self::revoke_all`] needs. Call it before the client is deleted.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn revocations(&self, client_id: &str) -> Result<Revocations, StoreError> {
        let sessions = oauth_sessions::of_client(self.db(), client_id, MAX_SESSIONS).await?;
        let keys = api_client_keys::with_children(self.db(), client_id).await?;
        Ok(Revocations { sessions, keys: keys.into_iter().map(|key| (key.kid.clone(), key)).collect() })
    }

    /// Revokes the sessions in the background. Errors are logged. Call it after the deletion.
    pub fn revoke_all(&self, of: Revocations) {
        if of.sessions.is_empty() {
            return;
        }
        // Authorization servers fetch the client's public keys to verify an assertion.
        for key in of.keys.values() {
            let mut keys = self.deleted_clients_keys().get(&key.client_id).unwrap_or_default();
            keys.push(key.public_jwk.clone());
            self.deleted_clients_keys().insert(key.client_id.clone(), keys);
        }
        let vault = self.clone();
        self.tasks().spawn(async move {
            let total = of.sessions.len();
            let next = AtomicUsize::new(0);
            let workers = (0..MAX_CONCURRENT).map(|_| vault.revoke_worker(&of, &next));
            let revoked_count = async { join_all(workers).await.into_iter().sum::<usize>() };
            if let Ok(revoked_count) = tokio::time::timeout(MAX_TIME, revoked_count).await {
                tracing::info!(total, revoked_count, "sessions of a deleted API client were revoked");
            } else {
                tracing::warn!(
                    total,
                    "not all sessions of a deleted API client were revoked in time; the others expire"
                );
            }
            for key in of.keys.values() {
                vault.deleted_clients_keys().invalidate(&key.client_id);
            }
        });
    }

    /// The public keys, as JSON text, of a deleted client whose sessions are still being revoked.
    pub fn keys_of_deleted_client(&self, client_id: &str) -> Vec<String> {
        self.deleted_clients_keys().get(client_id).unwrap_or_default()
    }

    /// Revokes sessions one after another, each that no other worker has taken. Returns how many were revoked.
    async fn revoke_worker(&self, of: &Revocations, next: &AtomicUsize) -> usize {
        let mut revoked_count = 0;
        while let Some(row) = of.sessions.get(next.fetch_add(1, Ordering::Relaxed)) {
            revoked_count += usize::from(self.revoke_deleted(row, &of.keys).await);
        }
        revoked_count
    }

    async fn revoke_deleted(&self, row: &SessionRow, keys: &HashMap<String, ClientKeyRow>) -> bool {
        let revoked = async {
            let key = match &row.assertion_kid {
                Some(kid) => {
                    let key = keys.get(kid).ok_or(RenewError::NoClientKey)?;
                    Some((kid.clone(), self.open_client_key(kid, &key.sealed)?))
                }
                None => None,
            };
            self.revoke_as(row, &ClientCredentials { client_id: row.oauth_client_id.clone(), key }).await
        };
        match revoked.await {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(session = row.id, %error, "a session could not be revoked at its authorization server");
                false
            }
        }
    }
}
