//! Renewing a session's tokens: each refresh token is used exactly once, whoever needs it on however many hosts.

use std::sync::Arc;
use std::time::Duration;

use super::{Held, RenewError, SealedTokens, Vault};
use crate::oauth::{FlowError, Tokens, flow};
use crate::store::oauth_sessions::{self, SessionRow};

/// A host that refreshes has this long; then another may. More than the exchange can take, with its retries.
const LEASE_SECONDS: i64 = 60;

/// How often it is looked whether another host is done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Vault {
    /// Tokens that are newer than those of `version`: somebody else's, or from the authorization server. Of all callers,
    /// on all hosts, one asks the server: a refresh token is good for one use, and a second one ends the session.
    ///
    /// # Errors
    /// When there are none to be had.
    pub(in crate::pds) async fn renew(&self, id: &str, version: i64) -> Result<Held, RenewError> {
        let (vault, id) = (self.clone(), id.to_owned());
        // In a task of its own, because a caller that goes away must not take the answer with it.
        let renewal = self.0.tasks.spawn(async move { vault.renewed(&id, version).await });
        renewal.await.unwrap_or(Err(RenewError::Stuck))
    }

    /// Renews the tokens of a session that nobody is using.
    ///
    /// # Errors
    /// When there are none to be had.
    pub async fn keep_alive(&self, id: &str) -> Result<(), RenewError> {
        let row = oauth_sessions::get(&self.0.db, id).await?.ok_or(RenewError::Ended)?;
        self.renew(id, row.version).await.map(drop)
    }

    async fn renewed(&self, id: &str, version: i64) -> Result<Held, RenewError> {
        let lock = self.0.locks.get_with_by_ref(id, Arc::default);
        let _one_of_this_process = lock.lock().await;
        let give_up = self.clock().now().plus_seconds(LEASE_SECONDS);
        loop {
            let row = oauth_sessions::get(&self.0.db, id).await?.ok_or(RenewError::Ended)?;
            if row.version > version {
                return self.held(&row);
            }
            if !row.refreshable {
                return Err(RenewError::Ended);
            }
            let now = self.clock().now();
            let until = now.plus_seconds(LEASE_SECONDS);
            if oauth_sessions::lease(&self.0.db, id, row.version, now, until).await? {
                return self.ask(&row).await;
            }
            if now >= give_up {
                return Err(RenewError::Stuck);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks the authorization server, with the right to do so.
    async fn ask(&self, row: &SessionRow) -> Result<Held, RenewError> {
        match self.exchange(row).await {
            Ok(tokens) => self.keep(row, &tokens).await,
            Err(RenewError::Flow(error)) if error.is_invalid_grant() => {
                // Of this version nothing can be had any more. A newer one, registered meanwhile, stays.
                oauth_sessions::delete_version(&self.0.db, &row.id, row.version).await?;
                tracing::info!(
                    session = row.id,
                    did = row.did,
                    "the authorization server has ended a session"
                );
                let newer = oauth_sessions::get(&self.0.db, &row.id).await?.ok_or(RenewError::Ended)?;
                self.held(&newer)
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
        let client = self.identity(row).await?;
        let server = self.0.discovery.server(&row.issuer).await?;
        let tokens = flow::refresh(&self.0.courier, &server, &client, &key, &refresh_token).await?;
        if tokens.sub.as_deref().is_some_and(|sub| sub != row.did) {
            return Err(FlowError::Malformed("the new token is another account's").into());
        }
        Ok(tokens)
    }

    async fn keep(&self, row: &SessionRow, new: &Tokens) -> Result<Held, RenewError> {
        let text = self.tokens_text(row)?;
        let old: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        // A server that does not rotate its refresh tokens leaves the field out (RFC 6749 §6).
        let refresh =
            new.refresh_token.as_ref().map(|token| token.reveal().as_str()).or(old.refresh_token.as_deref());
        let sealed = self.seal_tokens(&row.key_id, new.access_token.reveal(), refresh);
        let (refreshable, now) = (refresh.is_some(), self.clock().now());
        let (db, id) = (&self.0.db, &row.id);
        let kept =
            oauth_sessions::refreshed(db, id, row.version, &sealed, refreshable, new.expires_at, now).await?;
        if kept {
            return Ok(Held {
                access: new.access_token.clone(),
                expires_at: new.expires_at,
                refreshable,
                version: row.version + 1,
            });
        }
        // Registered anew while we asked: those tokens are newer.
        let row = oauth_sessions::get(db, id).await?.ok_or(RenewError::Ended)?;
        self.held(&row)
    }
}
