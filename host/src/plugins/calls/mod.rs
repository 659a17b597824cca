//! Calls of a plugin's functions: the values that cross, and the errors.

pub(super) mod values;

use std::sync::Arc;

pub use values::{
    AuthKind, Callback, Expiry, Fault, FaultCode, Function, Info, Item, Page, Profile, SecretInfo, Start,
    Tokens,
};

use super::engine::Component;
use super::registry::LoadedPlugin;
use crate::atproto::Did;
use crate::fair_share::Tenant;

/// Calls plugins, each call in an instance of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Calls;

/// For whom a call is made: what `kv` scopes and the share of the processor refer to.
#[derive(Clone, Debug)]
pub struct CallScope {
    pub tenant: Tenant,
    /// The user whose account it is about.
    pub did: Option<Did>,
    /// The sign-in that the call is part of: the SHA-256 hex of its state.
    pub flow: Option<String>,
}

/// Why a call gave no value.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The plugin's own error.
    #[error("{}", .0.message)]
    Fault(Fault),
    /// It trapped, or exceeded its memory or its time. The text is for the operator.
    #[error("{0}")]
    Failed(String),
    /// Too many calls are running.
    #[error("too many calls of the plugin are running")]
    Busy,
    #[error("the plugin is paused")]
    Paused,
    /// The plugin does not export the interface.
    #[error("the plugin has no {0}")]
    Unsupported(&'static str),
}

impl Calls {
    /// What a component says of itself, without secrets, network or store.
    pub async fn describe(&self, component: &Component) -> Result<Info, CallError> {
        let _ = component;
        Err(CallError::Busy)
    }

    pub async fn authorize_url(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        start: Start,
    ) -> Result<String, CallError> {
        let _ = (plugin, scope, start);
        Err(CallError::Busy)
    }

    pub async fn handle_callback(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        callback: Callback,
    ) -> Result<Tokens, CallError> {
        let _ = (plugin, scope, callback);
        Err(CallError::Busy)
    }

    /// `config` is JSON text, as in all calls.
    pub async fn connect(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        config: &str,
    ) -> Result<Tokens, CallError> {
        let _ = (plugin, scope, config);
        Err(CallError::Busy)
    }

    pub async fn refresh(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        tokens: &Tokens,
        config: &str,
    ) -> Result<Tokens, CallError> {
        let _ = (plugin, scope, tokens, config);
        Err(CallError::Busy)
    }

    pub async fn profile(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        tokens: &Tokens,
        config: &str,
    ) -> Result<Profile, CallError> {
        let _ = (plugin, scope, tokens, config);
        Err(CallError::Busy)
    }

    pub async fn revoke(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        tokens: &Tokens,
    ) -> Result<(), CallError> {
        let _ = (plugin, scope, tokens);
        Err(CallError::Busy)
    }

    /// One page of a sync. `cursor` is `None` at the start.
    pub async fn pull(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        tokens: &Tokens,
        config: &str,
        cursor: Option<&str>,
    ) -> Result<Page, CallError> {
        let _ = (plugin, scope, tokens, config, cursor);
        Err(CallError::Busy)
    }

    /// The functions that a library offers, without secrets, network or store.
    pub async fn surface(&self, component: &Component) -> Result<Vec<Function>, CallError> {
        let _ = component;
        Err(CallError::Busy)
    }

    /// Calls a library's function. `args` is the JSON text of an array; returns JSON text.
    pub async fn call_function(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        name: &str,
        args: &str,
        has_session: bool,
    ) -> Result<String, CallError> {
        let _ = (plugin, scope, name, args, has_session);
        Err(CallError::Busy)
    }
}
