//! The plugins that are loaded. A call keeps the version that it began with, so a reload fails no call.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::calls::values::Function;
use super::engine::Component;
use super::manifest::{Grants, Manifest};
use crate::reloadable::Reloadable;

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
pub struct Plugins(Arc<Reloadable<Loaded>>);

#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) plugins: BTreeMap<String, Entry>,
    /// Why a plugin is not loaded, by id.
    pub(super) failures: BTreeMap<String, Failure>,
}

/// Why a plugin is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// For the operator.
    pub(super) reason: String,
    /// The hashes of module and manifest that can never be loaded here. `None` if another attempt may succeed.
    pub(super) version: Option<[String; 2]>,
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
