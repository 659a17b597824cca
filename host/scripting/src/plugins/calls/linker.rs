//! A plugin with its functions about accounts. A function of `wit/plugin` is declared in [`Linker`] and called in its
//! implementation, and at no other place of the server. A trait, so that tests can replace plugins and inject their failures.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use wasmtime::Store;

use super::{
    CallError, CallScope, Callback, Calls, Fault, LINKING, LINKING_TOKENS, Page, Profile, SYNC, Start,
    Tokens, checks, private_values,
};
use crate::plugins::bindings::exports::belvedere::plugin::linking;
use crate::plugins::engine::Exports;
use crate::plugins::host::CallState;
use crate::plugins::manifest::{Grants, Manifest};
use crate::plugins::registry::{LoadedPlugin, PluginStatus, Plugins};

/// The result of a call of a plugin.
pub type Called<'a, T> = BoxFuture<'a, Result<T, CallError>>;

/// A loaded plugin: what it is, and the calls about accounts. `config` is JSON text.
pub trait Linker: fmt::Debug + Send + Sync {
    fn manifest(&self) -> &Manifest;
    fn grants(&self) -> &Grants;
    fn exports(&self) -> Exports;
    fn status(&self) -> PluginStatus;
    /// The text without the plugin's secrets.
    fn hide_secrets(&self, text: &str) -> String;
    fn authorize_url<'a>(&'a self, scope: &'a CallScope, start: Start) -> Called<'a, String>;
    fn handle_callback<'a>(&'a self, scope: &'a CallScope, callback: Callback) -> Called<'a, Tokens>;
    fn connect<'a>(&'a self, scope: &'a CallScope, config: &'a str) -> Called<'a, Tokens>;
    fn refresh<'a>(&'a self, scope: &'a CallScope, tokens: &'a Tokens, config: &'a str)
    -> Called<'a, Tokens>;
    fn profile<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
    ) -> Called<'a, Profile>;
    fn revoke<'a>(&'a self, scope: &'a CallScope, tokens: &'a Tokens) -> Called<'a, ()>;
    fn pull<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
        cursor: Option<&'a str>,
    ) -> Called<'a, Page>;
}

/// The loaded plugins.
pub trait Linkers: fmt::Debug + Send + Sync {
    fn get(&self, id: &str) -> Option<Arc<dyn Linker>>;
    fn all(&self) -> Vec<Arc<dyn Linker>>;
}

/// The plugins of the server.
#[derive(Clone, Debug)]
pub struct InstalledPlugins {
    pub plugins: Plugins,
    pub calls: Calls,
}

impl Linkers for InstalledPlugins {
    fn get(&self, id: &str) -> Option<Arc<dyn Linker>> {
        self.plugins.get(id).map(|plugin| Arc::new(self.calls.of(&plugin)) as _)
    }

    fn all(&self) -> Vec<Arc<dyn Linker>> {
        self.plugins.all().iter().map(|plugin| Arc::new(self.calls.of(plugin)) as _).collect()
    }
}

/// A plugin of the server.
#[derive(Debug)]
pub struct InstalledPlugin {
    plugin: Arc<LoadedPlugin>,
    calls: Calls,
}

impl Calls {
    /// The functions of a plugin about accounts.
    pub fn of(&self, plugin: &Arc<LoadedPlugin>) -> InstalledPlugin {
        InstalledPlugin { plugin: Arc::clone(plugin), calls: self.clone() }
    }
}

impl Linker for InstalledPlugin {
    fn manifest(&self) -> &Manifest {
        &self.plugin.manifest
    }

    fn grants(&self) -> &Grants {
        &self.plugin.grants
    }

    fn exports(&self) -> Exports {
        self.plugin.component.exports
    }

    fn status(&self) -> PluginStatus {
        self.plugin.status
    }

    fn hide_secrets(&self, text: &str) -> String {
        self.calls.hide_secrets(&self.plugin, text)
    }

    fn authorize_url<'a>(&'a self, scope: &'a CallScope, start: Start) -> Called<'a, String> {
        let private = private_values::of_start(&start);
        Box::pin(self.calls.call(&self.plugin, scope, LINKING, private, async move |guest, store| {
            let url = guest.linking(&mut *store)?.call_authorize_url(store, &start).await?;
            Ok(checks::answer(url, |url| checks::url("the authorize URL", url)))
        }))
    }

    fn handle_callback<'a>(&'a self, scope: &'a CallScope, callback: Callback) -> Called<'a, Tokens> {
        let private = private_values::of_callback(&callback);
        Box::pin(self.calls.call(&self.plugin, scope, LINKING_TOKENS, private, async move |guest, store| {
            let linking = guest.linking(&mut *store)?;
            let tokens = linking.call_handle_callback(&mut *store, &callback).await?;
            Ok(returned(store, tokens))
        }))
    }

    fn connect<'a>(&'a self, scope: &'a CallScope, config: &'a str) -> Called<'a, Tokens> {
        let private = private_values::of_config(config);
        Box::pin(self.calls.call(&self.plugin, scope, LINKING_TOKENS, private, async move |guest, store| {
            let tokens = guest.linking(&mut *store)?.call_connect(&mut *store, &config.to_owned()).await?;
            Ok(returned(store, tokens))
        }))
    }

    fn refresh<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
    ) -> Called<'a, Tokens> {
        let private = private_values::of_account(tokens, config);
        Box::pin(self.calls.call(&self.plugin, scope, LINKING_TOKENS, private, async move |guest, store| {
            let linking = guest.linking(&mut *store)?;
            let tokens = linking.call_refresh(&mut *store, &tokens.given(), &config.to_owned()).await?;
            Ok(returned(store, tokens))
        }))
    }

    fn profile<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
    ) -> Called<'a, Profile> {
        let private = private_values::of_account(tokens, config);
        Box::pin(self.calls.call(&self.plugin, scope, LINKING, private, async move |guest, store| {
            let profile = guest
                .linking(&mut *store)?
                .call_get_profile(store, &tokens.given(), &config.to_owned())
                .await?;
            Ok(checks::answer(profile, checks::profile))
        }))
    }

    fn revoke<'a>(&'a self, scope: &'a CallScope, tokens: &'a Tokens) -> Called<'a, ()> {
        let private = private_values::of_account(tokens, "");
        Box::pin(self.calls.call(&self.plugin, scope, LINKING, private, async move |guest, store| {
            guest.linking(&mut *store)?.call_revoke(store, &tokens.given()).await
        }))
    }

    fn pull<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
        cursor: Option<&'a str>,
    ) -> Called<'a, Page> {
        let private = private_values::of_account(tokens, config);
        Box::pin(self.calls.call(&self.plugin, scope, SYNC, private, async move |guest, store| {
            let page = guest
                .sync(&mut *store)?
                .call_pull(store, &tokens.given(), &config.to_owned(), cursor)
                .await?;
            Ok(checks::answer(page, checks::page))
        }))
    }
}

/// The tokens that a plugin returned, if they can be used. Nothing that it logs or says shows them.
fn returned(store: &mut Store<CallState>, answer: Result<linking::Tokens, Fault>) -> Result<Tokens, Fault> {
    let state = store.data_mut();
    let tokens = answer.and_then(|given| {
        state.hide("access token", &given.access);
        if let Some(refresh) = &given.refresh {
            state.hide("refresh token", refresh);
        }
        Tokens::returned(given, state.now())
    });
    checks::answer(tokens, checks::tokens)
}
