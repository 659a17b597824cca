//! Seals and refreshes tokens. Each refresh token is used once, by any number of callers on any number of hosts.

use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use super::super::calls::{Expiry, FaultCode, Tokens};
use super::{AccountError, Accounts, Linker, check, scope_of};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::{Event, requester};
use belvedere_storage::store::external_accounts::{self, AccountRow, AccountStatus, NewTokens};

/// Tokens that expire within this many seconds are refreshed before a call, because the call takes time too.
const SPARE_SECONDS: i64 = 60;

/// Time for which one host has the exclusive right to refresh, in seconds: longer than a call of a plugin.
const LEASE_SECONDS: i64 = 90;

/// Time before a waiting caller first checks whether another host has finished. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two such checks: a service answers in seconds, and many callers may wait.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// An account with its tokens in plain text.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) row: AccountRow,
    pub(super) tokens: Tokens,
    /// The user's input, as JSON text.
    pub(super) config: String,
}

impl Accounts {
    /// Refreshes the tokens of a user's account if they expire within a minute. Returns whether it did, and when they expire
    /// now.
    ///
    /// # Errors
    /// When no account is linked, its tokens have expired for good, or the plugin fails.
    pub async fn refresh(&self, did: &str, plugin: &str) -> Result<(bool, Option<Timestamp>), AccountError> {
        let linker = self.active(plugin)?;
        let row = external_accounts::get(&self.core().db, did, plugin).await?;
        let row = row.ok_or(AccountError::NotLinked)?;
        let version = row.version;
        let Opened { row, .. } = self.usable(&linker, row).await?;
        Ok((row.version > version, row.expires_at))
    }

    /// The account with tokens that expire in a minute at the earliest.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub(super) async fn usable(
        &self,
        plugin: &Arc<dyn Linker>,
        row: AccountRow,
    ) -> Result<Opened, AccountError> {
        if row.status != AccountStatus::Linked {
            return Err(AccountError::Expired);
        }
        let soon = self.core().clock.now().plus_seconds(SPARE_SECONDS);
        if row.expires_at.is_none_or(|at| at > soon) {
            return self.open(row);
        }
        self.renewed(plugin, &row).await
    }

    /// The account with newer tokens than those of `row`: from the store, or from the service.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub(super) async fn renewed(
        &self,
        plugin: &Arc<dyn Linker>,
        row: &AccountRow,
    ) -> Result<Opened, AccountError> {
        let (accounts, plugin) = (self.clone(), Arc::clone(plugin));
        let (id, version) = (row.id.clone(), row.version);
        // In a task of its own: when the caller is cancelled, the new tokens must still be stored.
        let renewal = async move { accounts.renew(&plugin, &id, version).await };
        self.core().tasks.spawn(requester::inherit(renewal)).await.unwrap_or(Err(AccountError::Refreshing))
    }

    async fn renew(&self, plugin: &Arc<dyn Linker>, id: &str, version: i64) -> Result<Opened, AccountError> {
        let (db, clock) = (&self.core().db, &self.core().clock);
        let give_up = clock.now().plus_seconds(LEASE_SECONDS);
        let mut pauses = pauses();
        loop {
            let refreshed = self.0.refreshed.notified();
            let row = external_accounts::by_id(db, id).await?.ok_or(AccountError::NotLinked)?;
            match row.status {
                AccountStatus::Linked => {}
                AccountStatus::Expired => return Err(AccountError::Expired),
                AccountStatus::Unlinking => return Err(AccountError::NotLinked),
            }
            if row.version > version {
                return self.open(row);
            }
            if row.refresh_token.is_none() {
                self.expire(&row).await?;
                return Err(AccountError::Expired);
            }
            let now = clock.now();
            let until = now.plus_seconds(LEASE_SECONDS);
            if external_accounts::lease_refresh(db, id, row.version, now, until).await? {
                let exchanged = self.exchange(plugin, row).await;
                self.0.refreshed.notify_waiters();
                return exchanged;
            }
            if now >= give_up {
                return Err(AccountError::Refreshing);
            }
            let _ = tokio::time::timeout(pauses.next().unwrap_or(MAX_PAUSE), refreshed).await;
        }
    }

    /// Refreshes the tokens at the service. The caller has to hold the lease.
    async fn exchange(&self, plugin: &Arc<dyn Linker>, row: AccountRow) -> Result<Opened, AccountError> {
        let db = &self.core().db;
        let (id, version) = (row.id.clone(), row.version);
        let refreshed = async {
            let Opened { row, tokens, config } = self.open(row)?;
            let new = plugin.refresh(&scope_of(&row), &tokens, &config).await;
            match new.map_err(AccountError::from).and_then(check::tokens) {
                Ok(new) => self.store_tokens(&row, &new).await,
                Err(error) if error.fault_code() == Some(FaultCode::NeedsReauth) => {
                    self.expire(&row).await?;
                    Err(AccountError::Expired)
                }
                Err(error) => Err(error),
            }
        };
        let refreshed = refreshed.await;
        if refreshed.is_err() {
            external_accounts::release_refresh(db, &id, version).await?;
        }
        refreshed
    }

    /// Stores refreshed tokens before they are used.
    async fn store_tokens(&self, row: &AccountRow, new: &Tokens) -> Result<Opened, AccountError> {
        let db = &self.core().db;
        let refresh = new.refresh.as_deref().map(|token| self.seal(&row.id, "refresh_token", token));
        let stored = NewTokens {
            access_token: &self.seal(&row.id, "access_token", &new.access),
            refresh_token: refresh.as_deref(),
            token_type: &new.token_type,
            scope: new.scope.as_deref(),
            expires_at: expires_at(new),
        };
        external_accounts::refreshed(db, &row.id, row.version, &stored, self.core().clock.now()).await?;
        // If the account was linked again in the meantime, the stored tokens are newer than these.
        let row = external_accounts::by_id(db, &row.id).await?.ok_or(AccountError::NotLinked)?;
        self.open(row)
    }

    /// Stores that the service no longer accepts the tokens of this version.
    pub(super) async fn expire(&self, row: &AccountRow) -> Result<(), AccountError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        if external_accounts::expire(db, &row.id, row.version, now).await? {
            let (did, plugin, account) = (row.did.clone(), row.plugin_id.clone(), row.account_id.clone());
            self.core().events.record(Event::ExternalAccountExpired { did, plugin, account });
        }
        Ok(())
    }

    pub(super) fn open(&self, row: AccountRow) -> Result<Opened, AccountError> {
        let text = |column: &str, sealed: &[u8]| -> Result<String, AccountError> {
            let bytes: Zeroizing<Vec<u8>> = self.core().sealing.open(&purpose(&row.id, column), sealed)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let refresh = row.refresh_token.as_deref().map(|sealed| text("refresh_token", sealed));
        let tokens = Tokens {
            access: text("access_token", &row.access_token)?,
            refresh: refresh.transpose()?,
            token_type: row.token_type.clone(),
            scope: row.scope.clone(),
            expiry: row.expires_at.map_or(Expiry::Never, Expiry::At),
        };
        let config = text("config", &row.config)?;
        Ok(Opened { row, tokens, config })
    }

    /// Seals a text for a column of a row.
    pub(super) fn seal(&self, id: &str, column: &str, text: &str) -> Vec<u8> {
        self.core().sealing.seal(&self.core().random, &purpose(id, column), text.as_bytes())
    }
}

/// The pauses between checks whether another host has finished.
fn pauses() -> impl Iterator<Item = Duration> + Send {
    std::iter::successors(Some(FIRST_PAUSE), |pause| Some((*pause * 2).min(MAX_PAUSE)))
}

fn purpose(id: &str, column: &str) -> String {
    format!("external_accounts:{id}:{column}")
}

pub(super) fn expires_at(tokens: &Tokens) -> Option<Timestamp> {
    match tokens.expiry {
        Expiry::Never => None,
        Expiry::At(at) => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_that_wait_long_check_once_a_second() {
        let millis: Vec<_> = pauses().take(8).map(|pause| pause.as_millis()).collect();
        assert_eq!(millis, [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]);
    }
}
