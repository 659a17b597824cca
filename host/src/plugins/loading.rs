//! Loads the installed plugins from the store, and those that the configuration names into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::calls::Calls;
use super::check::{self, CheckError, Examined};
use super::consent;
use super::engine::PluginEngine;
use super::manifest::{Grants, Manifest, Permission};
use super::package::Package;
use super::registry::{Entry, Failure, Loaded, LoadedPlugin, PluginStatus, Plugins};
use super::secrets::PluginSecrets;
use crate::clock::Clock;
use crate::store::notices::announce;
use crate::store::plugins::{self, NewPlugin, PluginRow, PluginSource, PluginState, Replaces};
use crate::store::{Db, StoreError};

/// The notice to other hosts that a plugin or a secret has changed.
pub const NOTICE: &str = "plugins";

/// Loads plugins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Loader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    clock: Clock,
    engine: PluginEngine,
    calls: Calls,
    plugins: Plugins,
    secrets: PluginSecrets,
    /// Ids that the configuration names, and those that may have the unrestricted network.
    configured: BTreeSet<String>,
    unrestricted: BTreeSet<String>,
    /// Why a plugin that the configuration names could not be stored, by id or folder.
    failures: Mutex<BTreeMap<String, String>>,
}

/// What a [`Loader`] uses.
#[derive(Debug)]
pub struct LoaderDeps {
    pub db: Db,
    pub clock: Clock,
    pub engine: PluginEngine,
    pub calls: Calls,
    pub plugins: Plugins,
    pub secrets: PluginSecrets,
    /// Ids of the plugins that the configuration names.
    pub configured: BTreeSet<String>,
    /// Those that may have the unrestricted network.
    pub unrestricted: BTreeSet<String>,
}

impl Loader {
    pub fn new(deps: LoaderDeps) -> Self {
        let LoaderDeps { db, clock, engine, calls, plugins, secrets, configured, unrestricted } = deps;
        let failures = Mutex::default();
        Self(Arc::new(Inner {
            db,
            clock,
            engine,
            calls,
            plugins,
            secrets,
            configured,
            unrestricted,
            failures,
        }))
    }

    /// Loads plugins and secrets as they are stored. A plugin that can't be loaded is logged and listed as a failure; the
    /// others are loaded all the same.
    ///
    /// # Errors
    /// When the store can't be read; then everything stays as it was.
    pub async fn reload(&self) -> Result<(), StoreError> {
        let this = &*self.0;
        this.secrets.reload().await?;
        this.plugins
            .reload(async |current| {
                let mut next = Loaded::default();
                for (id, reason) in self.failures().iter() {
                    next.failures.insert(id.clone(), Failure { reason: reason.clone(), version: None });
                }
                for row in plugins::list(&this.db).await? {
                    match self.load(current, &row).await? {
                        Ok(entry) => {
                            next.failures.remove(&row.id);
                            next.plugins.insert(row.id, entry);
                        }
                        Err(failure) => drop(next.failures.insert(row.id, failure)),
                    }
                }
                for (plugin, failure) in &next.failures {
                    if current.failures.get(plugin) != Some(failure) {
                        let reason = &failure.reason;
                        tracing::warn!(plugin, reason, "a plugin could not be loaded");
                    }
                }
                Ok(next)
            })
            .await
    }

    /// After a write: as [`Self::reload`], and makes the other hosts reload.
    ///
    /// # Errors
    /// When one of these fails. The write stays, and takes effect within a minute.
    pub async fn changed(&self) -> Result<(), StoreError> {
        let announced = announce(&self.0.db, NOTICE).await;
        self.reload().await.and(announced)
    }

    /// After an operator resumed a plugin: as [`Self::changed`], and forgets its traps.
    ///
    /// # Errors
    /// As [`Self::changed`].
    pub async fn resumed(&self, id: &str) -> Result<(), StoreError> {
        self.0.calls.resume(id);
        self.changed().await
    }

    /// Compiles a plugin and compares it with its manifest. Stores nothing.
    ///
    /// # Errors
    /// The first disagreement.
    pub async fn examine(&self, package: Package) -> Result<Examined, CheckError> {
        check::examine(&self.0.engine, &self.0.calls, package).await
    }

    /// Stores a plugin that the configuration names, unless it is stored already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn store_configured(
        &self,
        package: Package,
        source: PluginSource,
        url: Option<&str>,
        pinned: bool,
    ) -> Result<(), StoreError> {
        let id = package.id().to_owned();
        let stored = plugins::get(&self.0.db, &id).await?;
        let examined = match self.examine(package).await {
            Ok(examined) => examined,
            Err(error) => {
                self.failed(&id, error.to_string());
                return Ok(());
            }
        };
        let grants = consent::of_configured(&examined.requested, self.0.unrestricted.contains(&id));
        let new = NewVersion { examined: &examined, grants: &grants, source, url, pinned, actor: None };
        let row = match stored {
            Some(row) if new.is(&row) => Some(row),
            _ => new.store(&self.0.db, Replaces::Any, &self.0.clock).await?,
        };
        match row {
            Some(_) => drop(self.failures().remove(&id)),
            None => {
                self.failed(&id, "it is being removed; start the server again when it is gone".to_owned())
            }
        }
        Ok(())
    }

    /// Keeps the reason why a plugin that the configuration names is not there.
    pub fn failed(&self, id: &str, reason: String) {
        self.failures().insert(id.to_owned(), reason);
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outer error is the store's.
    async fn load(&self, current: &Loaded, row: &PluginRow) -> Result<Result<Entry, Failure>, StoreError> {
        let failed = |reason: String| Ok(Err(Failure { reason, version: None }));
        let is_configured = matches!(row.source, PluginSource::File | PluginSource::Environment);
        if is_configured && !self.0.configured.contains(&row.id) {
            let text = "it is no longer in PLUGIN_DIR or PLUGIN_URLS: put it back, or delete it here";
            return failed(text.to_owned());
        }
        let granted: Result<Vec<Permission>, _> = row.granted.iter().map(|text| text.parse()).collect();
        let grants = match granted {
            Ok(granted) => Grants::new(granted),
            Err(error) => return failed(error.to_string()),
        };
        let status = match row.status {
            PluginState::Active => PluginStatus::Active,
            PluginState::Paused => PluginStatus::Paused,
            PluginState::Removing => PluginStatus::Removing,
        };
        let known = current.plugins.get(&row.id).filter(|known| {
            known.plugin.component.sha256 == row.module_sha256 && known.manifest_sha256 == row.manifest_sha256
        });
        if let Some(known) = known {
            if status == PluginStatus::Active && known.plugin.status != status {
                self.0.calls.resume(&row.id);
            }
            if known.plugin.grants == grants && known.plugin.status == status {
                return Ok(Ok(known.clone()));
            }
            let LoadedPlugin { manifest, component, functions, .. } = &*known.plugin;
            let (manifest, component, functions) = (manifest.clone(), component.clone(), functions.clone());
            let plugin = Arc::new(LoadedPlugin { manifest, grants, component, status, functions });
            return Ok(Ok(Entry { plugin, manifest_sha256: row.manifest_sha256.clone() }));
        }
        // Compiling takes up to a minute, so what can't succeed is not tried again.
        let version = [row.module_sha256.clone(), row.manifest_sha256.clone()];
        if let Some(failure) = current.failures.get(&row.id)
            && failure.version.as_ref() == Some(&version)
        {
            return Ok(Err(failure.clone()));
        }
        let Some(module) = plugins::module(&self.0.db, &row.module_sha256).await? else {
            return failed("its module is missing in the database: reload or install it again".to_owned());
        };
        let loaded = async {
            let invalid = |text: String| CheckError::Invalid(text);
            let manifest =
                Manifest::parse(row.manifest.as_bytes()).map_err(|error| invalid(error.to_string()))?;
            let component = self.0.engine.load(&module).await.map_err(|error| invalid(error.to_string()))?;
            let functions = check::functions(&self.0.calls, &component).await?;
            let plugin = Arc::new(LoadedPlugin { manifest, grants, component, status, functions });
            Ok(Entry { plugin, manifest_sha256: row.manifest_sha256.clone() })
        };
        Ok(loaded.await.map_err(|error: CheckError| Failure {
            reason: error.to_string(),
            version: (error != CheckError::Busy).then_some(version),
        }))
    }
}

/// A version to store.
#[derive(Debug)]
pub(super) struct NewVersion<'a> {
    pub(super) examined: &'a Examined,
    pub(super) grants: &'a Grants,
    pub(super) source: PluginSource,
    pub(super) url: Option<&'a str>,
    pub(super) pinned: bool,
    pub(super) actor: Option<&'a str>,
}

impl NewVersion<'_> {
    /// Whether the row has this version with these grants.
    fn is(&self, row: &PluginRow) -> bool {
        let package = &self.examined.package;
        row.module_sha256 == package.module_sha256
            && row.manifest_sha256 == package.manifest.sha256
            && row.granted == texts(self.grants.iter())
            && row.source == self.source
            && row.url.as_deref() == self.url
            && row.pinned == self.pinned
    }

    /// `None` when the plugin is being removed, or `replaces` names another version.
    pub(super) async fn store(
        &self,
        db: &Db,
        replaces: Replaces<'_>,
        clock: &Clock,
    ) -> Result<Option<PluginRow>, StoreError> {
        let package = &self.examined.package;
        let new = NewPlugin {
            id: package.id(),
            source: self.source,
            url: self.url,
            module: &package.module,
            module_sha256: &package.module_sha256,
            manifest_sha256: &package.manifest.sha256,
            pinned: self.pinned,
            manifest: &package.manifest.text,
            requested: &texts(self.examined.requested.iter()),
            granted: &texts(self.grants.iter()),
            installed_by: self.actor,
        };
        plugins::install(db, &new, replaces, clock.now()).await
    }
}

/// The texts of permissions.
pub fn texts<'a>(permissions: impl Iterator<Item = &'a Permission>) -> Vec<String> {
    permissions.map(ToString::to_string).collect()
}
