//! Renews a session's tokens. Each refresh token is used exactly once, by any number of callers on any number of hosts.

use std::sync::Arc;
use std::time::Duration;

use super::{RenewError, SealedTokens, SessionTokens, Vault};
use crate::oauth::{FlowError, Tokens, flow};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::oauth_sessions::{self, SessionRow};

/// Time for which one host has the exclusive right to refresh a session, in seconds: longer than the exchange with its
/// retries.
const LEASE_SECONDS: i64 = 60;

/// Interval at which a waiting host checks whether another host has finished.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Vault {
    /// Returns tokens that are newer than those of `version`: from the store, or from the authorization server. Only
    /// one of all callers on all hosts calls the server: a second use of a refresh token would end the session.
    ///
    /// # Errors
    /// When the tokens can't be renewed.
    pub(in crate::pds) async fn renew(&self, id: &str, version: i64) -> Result<SessionTokens, RenewError> {
        let (vault, id) = (self.clone(), id.to_owned());
        // In a separate task: when the caller is cancelled, the new tokens must still be stored.
        let renewal = self.0.tasks.spawn(async move { vault.renew_once(&id, version).await });
        renewal.await.unwrap_or(Err(RenewError::Stuck))
    }

    /// Renews the tokens of an idle session, so that it does not expire.
    ///
    /// # Errors
    /// When the tokens can't be renewed, or the account has moved.
    pub async fn keep_alive(&self, id: &str) -> Result<(), RenewError> {
        let row = oauth_sessions::get(&self.0.db, id).await?.ok_or(RenewError::Ended)?;
        let did = Did::try_from(row.did.as_str())
            .map_err(|_| StoreError::Corrupt(format!("oauth_sessions {id}: its DID is invalid")))?;
        Box::pin(self.check_pds(id, &did, &row.pds)).await?;
        self.renew(id, row.version).await.map(drop)
    }

    async fn renew_once(&self, id: &str, version: i64) -> Result<SessionTokens, RenewError> {
        let lock = self.0.locks.get_with_by_ref(id, Arc::default);
        let _process_lock = lock.lock().await;
        let give_up = self.clock().now().plus_seconds(LEASE_SECONDS);
        loop {
            let row = oauth_sessions::get(&self.0.db, id).await?.ok_or(RenewError::Ended)?;
            if row.version > version {
                return self.open_tokens(&row);
            }
            if !row.refreshable {
                return Err(RenewError::Ended);
            }
            let now = self.clock().now();
            let until = now.plus_seconds(LEASE_SECONDS);
            if oauth_sessions::lease(&self.0.db, id, row.version, now, until).await? {
                return self.refresh_tokens(&row).await;
            }
            if now >= give_up {
                return Err(RenewError::Stuck);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Renews the tokens at the authorization server. The caller has to hold the session's lease.
    async fn refresh_tokens(&self, row: &SessionRow) -> Result<SessionTokens, RenewError> {
        match self.exchange(row).await {
            Ok(tokens) => self.store_tokens(row, &tokens).await,
            Err(RenewError::Flow(error)) if error.is_invalid_grant() => {
                // This version can't be renewed any more. A newer one, registered meanwhile, stays.
                oauth_sessions::delete_version(&self.0.db, &row.id, row.version).await?;
                tracing::info!(
                    session = row.id,
                    did = row.did,
                    "the authorization server has ended a session"
                );
                let newer = oauth_sessions::get(&self.0.db, &row.id).await?.ok_or(RenewError::Ended)?;
                self.open_tokens(&newer)
            }
            Err(error) => {
                oauth_sessions::release(&self.0.db, &row.id, row.version).await?;
                tracing::warn!(session = row.id, did = row.did, %error, "a session could not be refreshed");
                Err(error)
            }
        }
    }

    async fn exchange(&self, row: &SessionRow) -> Result<Tokens, RenewError> {
        let text = self.tokens_text(row)?;
        let old: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        let refresh_token = old.refresh_token.ok_or(RenewError::Ended)?;
        let key = self.open_key(&row.key_id, &row.sealed_key)?;
        let client = self.client_credentials(row).await?;
        let server = self.0.discovery.server(&row.issuer).await?;
        let tokens = flow::refresh(&self.0.dpop_client, &server, &client, &key, &refresh_token).await?;
        if tokens.sub.as_deref().is_some_and(|sub| sub != row.did) {
            return Err(FlowError::Malformed("the new token belongs to another account").into());
        }
        Ok(tokens)
    }

    async fn store_tokens(&self, row: &SessionRow, new: &Tokens) -> Result<SessionTokens, RenewError> {
        let text = self.tokens_text(row)?;
        let old: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        // A server that does not rotate its refresh tokens leaves the field out (RFC 6749 §6).
        let refresh =
            new.refresh_token.as_ref().map(|token| token.reveal().as_str()).or(old.refresh_token.as_deref());
        let sealed = self.seal_tokens(&row.key_id, new.access_token.reveal(), refresh);
        let (refreshable, now) = (refresh.is_some(), self.clock().now());
        let (db, id) = (&self.0.db, &row.id);
        let stored =
            oauth_sessions::refreshed(db, id, row.version, &sealed, refreshable, new.expires_at, now).await?;
        if stored {
            return Ok(SessionTokens {
                access: new.access_token.clone(),
                expires_at: new.expires_at,
                refreshable,
                version: row.version + 1,
            });
        }
        // The session was registered again during the exchange, so the tokens in the store are newer.
        let row = oauth_sessions::get(db, id).await?.ok_or(RenewError::Ended)?;
        self.open_tokens(&row)
    }
}
