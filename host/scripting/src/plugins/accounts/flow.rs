//! Signs a user in at a service: begins, lets the user consent on our page, and completes when the service redirects back.
//!
//! The state is known to the user's application and to the browser in which the user consented. Only that browser can
//! complete the sign-in, once: a link that someone else made links nothing unseen.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::calls::{CallScope, Callback, Start};
use super::super::manifest::{AuthType, Permission};
use super::linking::{Consent, consented};
use super::{AccountError, AccountUser, Accounts, Linker, ServiceUrl, check, tenant_of};
use belvedere_instance::events::{Event, requester};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::sha256_hex;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::external_auth_states::{self, FlowRow};
use belvedere_storage::store::plugin_values::{self, Scope};

/// Maximum time of a sign-in, in seconds: the user may have to find a password and a second factor.
pub(super) const LIFETIME_SECONDS: i64 = 600;

/// Open sign-ins of a user at a plugin. One more ends the oldest: users open several tabs, but not many.
const MAX_OPEN: u32 = 5;

/// Random bytes of a state: too many to guess.
const STATE_BYTES: usize = 32;

/// Longest state that is looked up, in bytes.
const MAX_STATE: usize = 128;

/// Parameters of a callback that are passed to the plugin. Protocols have about twenty at most.
const MAX_PARAMS: usize = 64;

/// The config of a plugin that links accounts by signing in.
const NO_CONFIG: &str = "{}";

/// A sign-in as our page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowView {
    pub plugin: String,
    pub did: Did,
    /// The collections that the plugin will write.
    pub collections: Vec<String>,
    /// The hosts that the plugin may call; `None` if it may call every one.
    pub hosts: Option<Vec<String>>,
}

/// A sign-in that has ended.
#[derive(Debug)]
pub struct Completed {
    /// The URL to which the user's application wants to have them back.
    pub redirect_uri: String,
    /// The error is a text for the user.
    pub outcome: Result<(), String>,
}

impl Accounts {
    /// Begins a sign-in. `redirect_uri` must have been checked. `collections` as in [`Self::connect`]. Returns its state.
    ///
    /// # Errors
    /// When the plugin is unknown, paused, or links accounts in another way.
    pub async fn begin(
        &self,
        user: &AccountUser,
        plugin: &str,
        redirect_uri: String,
        collections: Option<Vec<String>>,
    ) -> Result<String, AccountError> {
        let linker = self.active_sign_in(plugin)?;
        let state = URL_SAFE_NO_PAD.encode(self.core().random.bytes::<STATE_BYTES>());
        let now = self.core().clock.now();
        let flow = FlowRow {
            state: sha256_hex(state.as_bytes()),
            did: user.did.to_string(),
            plugin_id: plugin.to_owned(),
            redirect_uri,
            collections: consented(linker.as_ref(), collections)?,
            oauth_session_id: user.session.to_string(),
            tenant: user.tenant.to_string(),
            created_at: now,
            expires_at: now.plus_seconds(LIFETIME_SECONDS),
        };
        external_auth_states::put(&self.core().db, &flow, MAX_OPEN).await?;
        Ok(state)
    }

    /// The facts that the user is to consent to.
    ///
    /// # Errors
    /// [`AccountError::State`] when there is no such sign-in, or as [`Self::begin`].
    pub async fn view(&self, plugin: &str, state: &str) -> Result<FlowView, AccountError> {
        let linker = self.active_sign_in(plugin)?;
        let flow = self.flow(plugin, state).await?;
        let is_unrestricted = linker.grants().contains(&Permission::UnrestrictedNetwork);
        let hosts = linker.grants().iter().filter_map(|held| match held {
            Permission::Network { host, .. } => Some(host.to_string()),
            _ => None,
        });
        Ok(FlowView {
            plugin: linker.manifest().name.clone(),
            did: did_of(&flow)?,
            collections: flow.collections,
            hosts: (!is_unrestricted).then(|| hosts.collect()),
        })
    }

    /// The user consents, in the browser whose cookie has the hash `browser`. Returns where they sign in.
    ///
    /// # Errors
    /// [`AccountError::State`] when there is no such sign-in or it is bound to another browser; when the plugin fails.
    pub async fn consent(
        &self,
        plugin: &str,
        state: &str,
        browser: &str,
        callback: String,
    ) -> Result<ServiceUrl, AccountError> {
        let linker = self.active_sign_in(plugin)?;
        let flow = self.flow(plugin, state).await?;
        let (db, now) = (&self.core().db, self.core().clock.now());
        if !external_auth_states::bind(db, &flow.state, plugin, browser, now).await? {
            return Err(AccountError::State);
        }
        let start = Start { state: state.to_owned(), redirect_uri: callback, config: NO_CONFIG.to_owned() };
        let url = linker.authorize_url(&scope_of(&flow), start).await?;
        ServiceUrl::parse(&url, self.0.allow_loopback)
    }

    /// Completes a sign-in with the parameters of the service's redirect, in the browser whose cookie has the hash `browser`.
    /// The state is used up, whatever the outcome.
    ///
    /// # Errors
    /// [`AccountError::State`], and nothing is stored or used up, when the sign-in is unknown, expired, completed before, of
    /// another plugin, or of another browser.
    pub async fn complete(
        &self,
        plugin: &str,
        browser: &str,
        callback: String,
        params: Vec<(String, String)>,
    ) -> Result<Completed, AccountError> {
        let linker = self.active_sign_in(plugin)?;
        let state = params.iter().find(|(name, _)| name == "state").map(|(_, value)| value.clone());
        let state = state.filter(|state| state.len() <= MAX_STATE).ok_or(AccountError::State)?;
        let (db, now) = (&self.core().db, self.core().clock.now());
        let hash = sha256_hex(state.as_bytes());
        let flow = external_auth_states::take(db, &hash, plugin, browser, now).await?;
        let flow = flow.ok_or(AccountError::State)?;
        let accounts = self.clone();
        let redirect_uri = flow.redirect_uri.clone();
        // In a task of its own: when the browser goes away, tokens that were issued are still stored.
        let work = async move {
            let result = accounts.exchange_callback(&linker, &flow, state, callback, params).await;
            let plugin = linker.manifest().id.as_str();
            if let Err(error) = &result {
                let reason = error.to_string();
                tracing::info!(plugin, did = flow.did, reason, "an external account could not be linked");
                let (did, plugin) = (Some(flow.did.clone()), plugin.to_owned());
                accounts.core().events.record(Event::ExternalAccountLinkFailed { did, plugin, reason });
            }
            // The plugin's notes of the sign-in are used up with it.
            let db = &accounts.core().db;
            let removed = plugin_values::remove_owner(db, plugin, Scope::Flow, &flow.state).await;
            if let Err(error) = removed {
                tracing::warn!(%error, "what a plugin kept for a sign-in stays until it expires");
            }
            result
        };
        let result =
            self.core().tasks.spawn(requester::inherit(work)).await.unwrap_or(Err(AccountError::Raced));
        let outcome = result.map_err(|error| match error {
            AccountError::Store(_) | AccountError::Sealed(_) => "Connection failed".to_owned(),
            error => error.public_text(),
        });
        Ok(Completed { redirect_uri, outcome })
    }

    async fn exchange_callback(
        &self,
        plugin: &Arc<dyn Linker>,
        flow: &FlowRow,
        state: String,
        redirect_uri: String,
        mut params: Vec<(String, String)>,
    ) -> Result<(), AccountError> {
        if let Some((_, code)) = params.iter().find(|(name, _)| name == "error") {
            let text = match code.as_str() {
                "access_denied" => "you did not allow the connection",
                _ => "the service refused the connection",
            };
            return Err(AccountError::BadInput(text.to_owned()));
        }
        params.truncate(MAX_PARAMS);
        let user = AccountUser {
            did: did_of(flow)?,
            session: flow.oauth_session_id.as_str().into(),
            tenant: tenant_of(&flow.tenant),
        };
        let scope = scope_of(flow);
        let callback = Callback { state, redirect_uri, params, config: NO_CONFIG.to_owned() };
        let tokens = check::tokens(plugin.handle_callback(&scope, callback).await?)?;
        let consent = Consent { user: &user, collections: &flow.collections, config: NO_CONFIG };
        self.link(plugin, &scope, tokens, &consent).await.map(drop)
    }

    /// Records that a callback was refused, by a sign-in that can't be identified.
    pub fn record_refused_callback(&self, plugin: &str, error: &AccountError) {
        if self.0.linkers.get(plugin).is_some() {
            let (plugin, reason) = (plugin.to_owned(), error.public_text());
            self.core().events.record(Event::ExternalAccountLinkFailed { did: None, plugin, reason });
        }
    }

    async fn flow(&self, plugin: &str, state: &str) -> Result<FlowRow, AccountError> {
        if state.len() > MAX_STATE {
            return Err(AccountError::State);
        }
        let (db, hash, now) = (&self.core().db, sha256_hex(state.as_bytes()), self.core().clock.now());
        external_auth_states::get(db, &hash, plugin, now).await?.ok_or(AccountError::State)
    }

    /// A plugin in use whose accounts are linked by signing in.
    fn active_sign_in(&self, plugin: &str) -> Result<Arc<dyn Linker>, AccountError> {
        let linker = self.active(plugin)?;
        match linker.manifest().auth_type {
            AuthType::Oauth2 | AuthType::Openid => Ok(linker),
            AuthType::ApiKey | AuthType::None => Err(AccountError::OtherKind(
                "accounts of this plugin are linked by POST /external-auth/PLUGIN/connect",
            )),
        }
    }
}

fn scope_of(flow: &FlowRow) -> CallScope {
    CallScope {
        tenant: tenant_of(&flow.tenant),
        did: Did::try_from(flow.did.as_str()).ok(),
        flow: Some(flow.state.clone()),
    }
}

fn did_of(flow: &FlowRow) -> Result<Did, AccountError> {
    let did = Did::try_from(flow.did.as_str());
    did.map_err(|_| StoreError::Corrupt("external_auth_states.did".to_owned()).into())
}
