//! The plugins that are loaded. A call keeps the version that it began with, so a reload fails no call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::engine::Component;
use super::manifest::{Grants, Manifest};
use super::values::Function;
use belvedere_base::reloadable::Reloadable;

/// An installed plugin, ready to be called.
#[derive(Debug)]
pub struct LoadedPlugin {
    pub manifest: Arc<Manifest>,
    pub grants: Grants,
    pub component: Component,
    pub status: PluginStatus,
    /// The functions of a library, read once when it was loaded.
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

/// The plugins that this host paused, by id, until it learns that they were resumed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PausedHere(Arc<Mutex<BTreeSet<String>>>);

impl PausedHere {
    /// After the pause was stored.
    pub fn add(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Whether the plugin was there; it is not afterwards.
    pub(super) fn take(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// The loaded plugins by id. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Plugins(Arc<Reloadable<Loaded>>);

#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) plugins: BTreeMap<String, Entry>,
    /// The reason why a plugin is not loaded, by id.
    pub(super) failures: BTreeMap<String, Failure>,
}

/// The reason why a plugin is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// For the operator.
    pub(super) reason: String,
    /// The hashes of module and manifest that can never be loaded here. `None` if another attempt may succeed.
    pub(super) version: Option<[String; 2]>,
}

impl Entry {
    /// The same version with other grants or another status.
    pub(super) fn with(&self, grants: Grants, status: PluginStatus) -> Self {
        if self.plugin.grants == grants && self.plugin.status == status {
            return self.clone();
        }
        let LoadedPlugin { manifest, component, functions, .. } = &*self.plugin;
        let (manifest, component) = (Arc::clone(manifest), component.clone());
        let functions = functions.clone();
        let plugin = Arc::new(LoadedPlugin { manifest, grants, component, status, functions });
        Self { plugin, manifest_sha256: self.manifest_sha256.clone() }
    }

    /// The same version, while another that has these grants can't be loaded: with those that it has itself and that were
    /// not revoked.
    pub(super) fn kept(&self, grants: &Grants, status: PluginStatus) -> Self {
        let both = self.plugin.grants.iter().filter(|own| grants.iter().any(|given| given.covers(own)));
        self.with(Grants::new(both.cloned().collect()), status)
    }
}

/// A loaded plugin with the hash of its manifest.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) plugin: Arc<LoadedPlugin>,
    pub(super) manifest_sha256: String,
}

impl Plugins {
    pub fn get(&self, id: &str) -> Option<Arc<LoadedPlugin>> {
        self.0.load().plugins.get(id).map(|entry| Arc::clone(&entry.plugin))
    }

    /// All, sorted by id.
    pub fn all(&self) -> Vec<Arc<LoadedPlugin>> {
        self.0.load().plugins.values().map(|entry| Arc::clone(&entry.plugin)).collect()
    }

    /// The plugins that could not be loaded, with the reasons, which are for the operator.
    pub fn failures(&self) -> BTreeMap<String, String> {
        let loaded = self.0.load();
        loaded.failures.iter().map(|(id, failure)| (id.clone(), failure.reason.clone())).collect()
    }

    /// Replaces the plugins by the result of `read`, which gets the current ones.
    pub(super) async fn reload<E>(
        &self,
        read: impl AsyncFnOnce(&Loaded) -> Result<Loaded, E>,
    ) -> Result<(), E> {
        self.0.reload(read).await
    }
}

#[cfg(any(test, feature = "testing"))]
impl Plugins {
    /// These plugins, without a store.
    pub fn with(plugins: impl IntoIterator<Item = LoadedPlugin>) -> Self {
        let plugins = plugins.into_iter().map(|plugin| {
            let (id, manifest_sha256) = (plugin.manifest.id.clone(), String::new());
            (id, Entry { plugin: Arc::new(plugin), manifest_sha256 })
        });
        Self(Arc::new(Reloadable::new(Loaded { plugins: plugins.collect(), ..Loaded::default() })))
    }
}
