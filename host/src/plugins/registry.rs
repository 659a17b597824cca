//! The plugins that are loaded. A call keeps the version that it began with, so a reload fails no call.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::calls::values::Function;
use super::engine::Component;
use super::manifest::{Grants, Manifest};

/// An installed plugin, ready to be called.
#[derive(Debug)]
pub struct LoadedPlugin {
    pub manifest: Manifest,
    pub grants: Grants,
    pub component: Component,
    pub status: PluginStatus,
    /// Of a library, read once when it was loaded.
    pub functions: Vec<Function>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginStatus {
    Active,
    /// It trapped too often; an operator resumes it.
    Paused,
    /// Its accounts' tokens are being revoked.
    Removing,
}

/// The loaded plugins by id. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Plugins(Arc<ArcSwap<BTreeMap<String, Arc<LoadedPlugin>>>>);

impl Plugins {
    pub fn get(&self, id: &str) -> Option<Arc<LoadedPlugin>> {
        self.0.load().get(id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<LoadedPlugin>> {
        self.0.load().values().cloned().collect()
    }
}

#[cfg(test)]
impl Plugins {
    /// These plugins, without a store.
    pub fn with(plugins: impl IntoIterator<Item = LoadedPlugin>) -> Self {
        let by_id = plugins.into_iter().map(|plugin| (plugin.manifest.id.clone(), Arc::new(plugin)));
        Self(Arc::new(ArcSwap::from_pointee(by_id.collect())))
    }
}
