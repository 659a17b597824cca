//! A plugin as accounts use it. A trait, so that tests can replace plugins and inject their failures.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::super::calls::{CallError, CallScope, Callback, Calls, Page, Profile, Start, Tokens};
use super::super::engine::Exports;
use super::super::manifest::{Grants, Manifest};
use super::super::registry::{LoadedPlugin, PluginStatus, Plugins};

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

impl InstalledPlugins {
    fn linker(&self, plugin: Arc<LoadedPlugin>) -> Arc<dyn Linker> {
        Arc::new(Installed { plugin, calls: self.calls.clone() })
    }
}

impl Linkers for InstalledPlugins {
    fn get(&self, id: &str) -> Option<Arc<dyn Linker>> {
        self.plugins.get(id).map(|plugin| self.linker(plugin))
    }

    fn all(&self) -> Vec<Arc<dyn Linker>> {
        self.plugins.all().into_iter().map(|plugin| self.linker(plugin)).collect()
    }
}

#[derive(Debug)]
struct Installed {
    plugin: Arc<LoadedPlugin>,
    calls: Calls,
}

impl Linker for Installed {
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
        Box::pin(self.calls.authorize_url(&self.plugin, scope, start))
    }

    fn handle_callback<'a>(&'a self, scope: &'a CallScope, callback: Callback) -> Called<'a, Tokens> {
        Box::pin(self.calls.handle_callback(&self.plugin, scope, callback))
    }

    fn connect<'a>(&'a self, scope: &'a CallScope, config: &'a str) -> Called<'a, Tokens> {
        Box::pin(self.calls.connect(&self.plugin, scope, config))
    }

    fn refresh<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
    ) -> Called<'a, Tokens> {
        Box::pin(self.calls.refresh(&self.plugin, scope, tokens, config))
    }

    fn profile<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
    ) -> Called<'a, Profile> {
        Box::pin(self.calls.profile(&self.plugin, scope, tokens, config))
    }

    fn revoke<'a>(&'a self, scope: &'a CallScope, tokens: &'a Tokens) -> Called<'a, ()> {
        Box::pin(self.calls.revoke(&self.plugin, scope, tokens))
    }

    fn pull<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        config: &'a str,
        cursor: Option<&'a str>,
    ) -> Called<'a, Page> {
        Box::pin(self.calls.pull(&self.plugin, scope, tokens, config, cursor))
    }
}
