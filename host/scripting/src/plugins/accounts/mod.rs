//! Accounts at other services that users link through plugins: signing in, tokens, syncs into the user's repo, unlinking
//! (plugins.md §6).
//!
//! Tokens are sealed, and reach only the plugin that they were issued through. A user has one linked account of each plugin.

mod check;
mod error;
mod flow;
mod linking;
mod sweep;
mod sync;
#[cfg(test)]
mod tests;
mod tokens;
mod unlinking;

pub use super::calls::{InstalledPlugins, Linker, Linkers};
pub use check::ServiceUrl;
pub use error::AccountError;
pub use flow::Completed;
pub use sync::SyncState;

use std::sync::Arc;

use tokio::sync::Notify;

use super::calls::CallScope;
use super::registry::PluginStatus;
use belvedere_instance::core::Core;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::repos::Repos;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::external_accounts::{self, AccountRow};
use belvedere_web::fair_share::Tenant;

/// A user who links accounts, by the session with their PDS whose possession they proved.
#[derive(Clone, Debug)]
pub struct AccountUser {
    pub did: Did,
    /// Id of the session with the user's PDS.
    pub session: Arc<str>,
    /// The tenant whose share the calls take.
    pub tenant: Tenant,
}

/// Links, syncs and unlinks accounts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Accounts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Core,
    linkers: Arc<dyn Linkers>,
    repos: Repos,
    attestation: Arc<Attestation>,
    /// Whether users may be sent to services on this machine: only where the instance itself is on it.
    allow_loopback: bool,
    turns: sync::Turns,
    /// Wakes the workers: a sync or a revocation may be due.
    due: Notify,
    /// Notifies the turns of syncs: an account was unlinked or linked again on this host.
    unlinked: Notify,
    /// Notifies callers that wait for new tokens: a refresh has ended on this host.
    refreshed: Notify,
    /// Notifies requests that wait for the end of a sync: one has ended on this host.
    sync_ended: Notify,
}

impl Accounts {
    pub fn new(
        core: Core,
        linkers: Arc<dyn Linkers>,
        repos: Repos,
        attestation: Arc<Attestation>,
        allow_loopback: bool,
    ) -> Self {
        Self(Arc::new(Inner {
            core,
            linkers,
            repos,
            attestation,
            allow_loopback,
            turns: sync::Turns::default(),
            due: Notify::new(),
            unlinked: Notify::new(),
            refreshed: Notify::new(),
            sync_ended: Notify::new(),
        }))
    }

    /// Releases what a killed server held, before the workers start.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        external_accounts::release_all(&self.core().db).await
    }

    /// Starts the workers of syncs and revocations and the sweep, which run until the server drains.
    pub fn start_workers(&self) {
        let tasks = &self.core().tasks;
        tasks.spawn(sweep::run(self.clone()));
        tasks.spawn(unlinking::run(self.clone()));
        tasks.spawn(sync::run(self.clone()));
    }

    /// The plugins that link accounts and are in use.
    pub fn providers(&self) -> Vec<Arc<dyn Linker>> {
        let mut all = self.0.linkers.all();
        all.retain(|plugin| plugin.status() == PluginStatus::Active && plugin.exports().linking);
        all
    }

    /// The accounts that a user has linked, newest first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn list(&self, did: &Did) -> Result<Vec<AccountRow>, StoreError> {
        external_accounts::list(&self.core().db, did.as_str()).await
    }

    fn core(&self) -> &Core {
        &self.0.core
    }

    /// A plugin that links accounts and can be called.
    fn active(&self, plugin: &str) -> Result<Arc<dyn Linker>, AccountError> {
        let unknown = || AccountError::UnknownPlugin(plugin.chars().take(check::MAX_SHOWN_ID).collect());
        let found = self.0.linkers.get(plugin).filter(|found| found.exports().linking);
        let found = found.ok_or_else(unknown)?;
        match found.status() {
            PluginStatus::Active => Ok(found),
            PluginStatus::Paused => Err(AccountError::Paused),
            PluginStatus::Removing => Err(unknown()),
        }
    }
}

/// The scope of a call about an account.
fn scope_of(row: &AccountRow) -> CallScope {
    CallScope { tenant: tenant_of(&row.tenant), did: Did::try_from(row.did.as_str()).ok(), flow: None }
}

/// The tenant that a row names.
fn tenant_of(text: &str) -> Tenant {
    Tenant::parse(text).unwrap_or(Tenant::Instance)
}
