//! Links an account with the tokens that a service issued.

use std::sync::Arc;

use serde_json::Value;

use super::super::calls::{CallScope, FaultCode, Profile, Tokens};
use super::super::manifest::AuthType;
use super::tokens::expires_at;
use super::unlinking::GIVE_UP_SECONDS;
use super::{AccountError, AccountUser, Accounts, Linker, check};
use belvedere_instance::events::{Event, requester};
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::external_accounts::{self, Linked, NewAccount};

/// Largest config that a user may type, in bytes of JSON. API keys take a few hundred.
const MAX_CONFIG: usize = 16 * 1024;

/// Number of times that an account is stored again after another request has linked or unlinked one at the same moment.
const MAX_RACES: u32 = 3;

/// An account that was linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedAccount {
    pub account_id: String,
    pub display_name: Option<String>,
}

/// The stored data of an account besides its tokens.
pub(super) struct Consent<'a> {
    pub(super) user: &'a AccountUser,
    /// The collections that the user consented to.
    pub(super) collections: &'a [String],
    /// JSON text.
    pub(super) config: &'a str,
}

impl Accounts {
    /// Links an account by what the user typed, an API key for example. `collections`: those that a sync may write; all that
    /// the plugin may write if it is `None`.
    ///
    /// # Errors
    /// When the plugin links accounts in another way, the service refuses the config, or the plugin fails.
    pub async fn connect(
        &self,
        user: &AccountUser,
        plugin: &str,
        config: &Value,
        collections: Option<Vec<String>>,
    ) -> Result<LinkedAccount, AccountError> {
        let linker = self.active(plugin)?;
        if linker.manifest().auth_type != AuthType::ApiKey {
            return Err(AccountError::OtherKind(
                "accounts of this plugin are linked by signing in: GET /external-auth/PLUGIN/authorize",
            ));
        }
        if !config.is_object() {
            return Err(AccountError::BadInput("config must be an object".to_owned()));
        }
        let config = config.to_string();
        if config.len() > MAX_CONFIG {
            return Err(AccountError::BadInput(format!("config is larger than {MAX_CONFIG} bytes")));
        }
        let collections = consented(linker.as_ref(), collections)?;
        let (accounts, user) = (self.clone(), user.clone());
        // In a task of its own: when the caller hangs up, tokens that were issued are still stored.
        let work = async move {
            let scope = CallScope { tenant: user.tenant.clone(), did: Some(user.did.clone()), flow: None };
            let tokens = linker.connect(&scope, &config).await.map_err(AccountError::from);
            let tokens = tokens.map_err(refused_input).and_then(check::tokens)?;
            let consent = Consent { user: &user, collections: &collections, config: &config };
            accounts.link(&linker, &scope, tokens, &consent).await
        };
        self.core().tasks.spawn(requester::inherit(work)).await.unwrap_or(Err(AccountError::Raced))
    }

    /// Reads the profile of the account that the tokens belong to, and stores both. If that fails, the tokens are revoked.
    pub(super) async fn link(
        &self,
        plugin: &Arc<dyn Linker>,
        scope: &CallScope,
        tokens: Tokens,
        consent: &Consent<'_>,
    ) -> Result<LinkedAccount, AccountError> {
        let linked = self.profile_and_store(plugin, scope, &tokens, consent).await;
        if linked.is_err() {
            self.discard(plugin, scope, &tokens, consent).await;
        }
        linked
    }

    async fn profile_and_store(
        &self,
        plugin: &Arc<dyn Linker>,
        scope: &CallScope,
        tokens: &Tokens,
        consent: &Consent<'_>,
    ) -> Result<LinkedAccount, AccountError> {
        let profile = plugin.profile(scope, tokens, consent.config).await?;
        let profile = check::profile(profile)?;
        let plugin = plugin.manifest().id.as_str();
        let replaced = self.store(plugin, &profile, tokens, consent).await?;
        let Profile { account_id, display_name, .. } = profile;
        self.core().events.record(Event::ExternalAccountLinked {
            did: consent.user.did.to_string(),
            plugin: plugin.to_owned(),
            account: account_id.clone(),
            collections: consent.collections.to_vec(),
            replaced,
        });
        Ok(LinkedAccount { account_id, display_name })
    }

    /// Revokes tokens that were issued for nothing, once. Not those that the user's account has: what they typed again.
    async fn discard(
        &self,
        plugin: &Arc<dyn Linker>,
        scope: &CallScope,
        tokens: &Tokens,
        consent: &Consent<'_>,
    ) {
        let id = plugin.manifest().id.as_str();
        let held = external_accounts::get(&self.core().db, consent.user.did.as_str(), id).await;
        let is_held = match held {
            Ok(None) => false,
            Ok(Some(row)) => self.open(row).is_ok_and(|held| held.tokens.access == tokens.access),
            Err(_) => true,
        };
        if is_held {
            return;
        }
        if let Err(error) = plugin.revoke(scope, tokens).await {
            tracing::info!(plugin = id, %error, "tokens that could not be stored could not be revoked; they expire");
        }
    }

    /// Stores an account. Returns the id of another account that it replaces.
    async fn store(
        &self,
        plugin: &str,
        profile: &Profile,
        tokens: &Tokens,
        consent: &Consent<'_>,
    ) -> Result<Option<String>, AccountError> {
        let (db, did) = (&self.core().db, &consent.user.did);
        let tenant = consent.user.tenant.to_string();
        for _ in 0..MAX_RACES {
            let former = external_accounts::get(db, did.as_str(), plugin).await?;
            let same = former.as_ref().filter(|row| row.account_id == profile.account_id);
            let id = same.map_or_else(|| self.core().random.uuid(), |row| row.id.clone());
            let refresh = tokens.refresh.as_deref().map(|token| self.seal(&id, "refresh_token", token));
            let account = NewAccount {
                id: &id,
                did,
                plugin,
                account_id: &profile.account_id,
                display_name: profile.display_name.as_deref(),
                profile_url: profile.profile_url.as_deref(),
                avatar_url: profile.avatar_url.as_deref(),
                access_token: &self.seal(&id, "access_token", &tokens.access),
                refresh_token: refresh.as_deref(),
                token_type: &tokens.token_type,
                scope: tokens.scope.as_deref(),
                expires_at: expires_at(tokens),
                config: &self.seal(&id, "config", consent.config),
                collections: consent.collections,
                oauth_session_id: &consent.user.session,
                tenant: &tenant,
                replaces: former.as_ref().map(|row| row.id.as_str()),
            };
            let now = self.core().clock.now();
            match external_accounts::link(db, &account, now, now.plus_seconds(GIVE_UP_SECONDS)).await? {
                Linked::Raced => {}
                Linked::NoPlugin => return Err(AccountError::Removed),
                Linked::Stored => {
                    // A turn of the account's sync ends, and the next one begins with what the user consents to now.
                    if former.is_some() {
                        self.0.unlinked.notify_waiters();
                        self.0.due.notify_waiters();
                    }
                    return Ok(former.filter(|row| row.id != id).map(|row| row.account_id));
                }
            }
        }
        Err(AccountError::Raced)
    }
}

/// The collections that a user consents to: all that the operator granted, or those that the request names.
///
/// # Errors
/// For a name that the operator did not grant.
pub(super) fn consented(
    plugin: &dyn Linker,
    named: Option<Vec<String>>,
) -> Result<Vec<String>, AccountError> {
    if !plugin.exports().sync {
        return match named {
            Some(list) if !list.is_empty() => {
                Err(AccountError::BadInput("collections: this plugin writes no records".to_owned()))
            }
            _ => Ok(Vec::new()),
        };
    }
    let granted = plugin.grants().written_collections().map(Nsid::as_str);
    let Some(mut named) = named else { return Ok(granted.map(str::to_owned).collect()) };
    let granted: Vec<&str> = granted.collect();
    if let Some(unknown) = named.iter().find(|name| !granted.contains(&name.as_str())) {
        return Err(AccountError::BadInput(format!(
            "collections: this plugin may not write {:?}, only {}",
            check::shown(unknown),
            granted.join(", ")
        )));
    }
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

/// A fault that says that the service does not accept what the user typed is an error of the request.
fn refused_input(error: AccountError) -> AccountError {
    match error.fault_code() {
        Some(
            FaultCode::BadInput
            | FaultCode::AuthRequired
            | FaultCode::NeedsReauth
            | FaultCode::Forbidden
            | FaultCode::NotFound,
        ) => AccountError::BadInput(error.public_text()),
        _ => error,
    }
}
