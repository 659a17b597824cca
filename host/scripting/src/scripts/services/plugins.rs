//! Functions of the installed plugins, for `plugin.*`.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::plugins::calls::{CallError, CallScope, Calls, FailureCause, Fault, RunContext};
use crate::plugins::{LoadedPlugin, PluginStatus, Plugins};

/// Names in the message of an error that lists what exists.
const MAX_LISTED: usize = 20;

/// The reason why a call gave no value. The script sees the text, except where a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum PluginCallError {
    #[error("no plugin of this name has functions for scripts; installed are {0}")]
    NoPlugin(Names),
    #[error("the plugin has no such function; it has {0}")]
    NoFunction(Names),
    /// The plugin's own error.
    #[error("{}", .0.message)]
    Fault(Fault),
    #[error("the plugin is paused because it failed repeatedly; an operator can resume it")]
    Paused,
    #[error("too many calls of plugins are running, or no memory is free")]
    Busy,
    /// The plugin was stopped.
    #[error("the plugin failed: {0}")]
    Failed(FailureCause),
}

/// Names of plugins or of functions, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

/// Calls functions of plugins, for `plugin.*`.
pub trait PluginCalls: Send + Sync {
    /// Calls a function by the names that the script wrote. `args` is the JSON text of an array; returns JSON text. The plugin
    /// computes within the polls of the future, with the permit of the calling run to compute, and ends when the
    /// future is dropped.
    fn call<'a>(
        &'a self,
        plugin: &'a str,
        function: &'a str,
        args: &'a str,
        scope: &'a CallScope,
        run: &'a RunContext,
    ) -> BoxFuture<'a, Result<String, PluginCallError>>;
}

/// The plugins of this server.
#[derive(Clone, Debug)]
pub struct ServerPlugins {
    plugins: Plugins,
    calls: Calls,
}

impl ServerPlugins {
    pub fn new(plugins: Plugins, calls: Calls) -> Self {
        Self { plugins, calls }
    }

    /// The plugin with functions that a script names.
    fn library(&self, name: &str) -> Result<Arc<LoadedPlugin>, PluginCallError> {
        // Ids have no underscores.
        let found = self.plugins.get(&name.replace('_', "-")).filter(|plugin| is_library(plugin));
        found.ok_or_else(|| {
            let libraries = self.plugins.all().into_iter().filter(|plugin| is_library(plugin));
            PluginCallError::NoPlugin(libraries.map(|plugin| plugin.manifest.id.clone()).collect())
        })
    }
}

fn is_library(plugin: &LoadedPlugin) -> bool {
    !plugin.functions.is_empty() && plugin.status != PluginStatus::Removing
}

impl PluginCalls for ServerPlugins {
    fn call<'a>(
        &'a self,
        plugin: &'a str,
        function: &'a str,
        args: &'a str,
        scope: &'a CallScope,
        run: &'a RunContext,
    ) -> BoxFuture<'a, Result<String, PluginCallError>> {
        async move {
            let plugin = self.library(plugin)?;
            if !plugin.functions.iter().any(|known| known.name == function) {
                let names = plugin.functions.iter().map(|function| function.name.clone());
                return Err(PluginCallError::NoFunction(names.collect()));
            }
            let called = self.calls.call_function(&plugin, scope, function, args, run).await;
            called.map_err(PluginCallError::from)
        }
        .boxed()
    }
}

impl From<CallError> for PluginCallError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => Self::Fault(fault),
            CallError::Failed(failure) => Self::Failed(failure.cause),
            CallError::Busy => Self::Busy,
            CallError::Paused => Self::Paused,
            // Its functions were read when it was loaded.
            CallError::Unsupported(_) => Self::Failed(FailureCause::Unsupported),
        }
    }
}

impl FromIterator<String> for Names {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let mut names = Vec::from_iter(names);
        names.sort_unstable();
        Self(names)
    }
}

/// The first [`MAX_LISTED`], separated by commas, or `none`.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let listed = &self.0[..self.0.len().min(MAX_LISTED)];
        f.write_str(&listed.join(", "))?;
        if listed.len() < self.0.len() { f.write_str(", …") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_names_are_cut() {
        let listed = |count: usize| (0..count).map(|n| format!("f{n:02}")).collect::<Names>().to_string();
        assert_eq!((listed(0), listed(2)), ("none".to_owned(), "f00, f01".to_owned()));
        let many = listed(MAX_LISTED + 1);
        assert!(many.ends_with("f19, …"), "{many}");
    }
}
