//! Loads the installed plugins from the store, and those that the configuration names into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::calls::Calls;
use super::changes::Changes;
use super::check::{self, CheckError, Examined};
use super::consent;
use super::engine::{Component, PluginEngine};
use super::manifest::{Grants, Manifest, Permission};
use super::new_version::{NewVersion, Place};
use super::package::{Package, shortened};
use super::registry::{Entry, Failure, Loaded, LoadedPlugin, PausedHere, PluginStatus, Plugins};
use super::secrets::PluginSecrets;
use super::sources;
use super::values::Function;
use belvedere_instance::core::Core;
use belvedere_instance::events::Event;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::notifications::announce;
use belvedere_storage::store::plugins::{self, PluginRow, PluginSource, PluginState, Replaces};

/// The notification to other hosts that a plugin or a secret has changed.
pub const NOTIFICATION: &str = "plugins";

/// Loads plugins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Loader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    deps: LoaderDeps,
    /// The reason why a plugin that the configuration names could not be stored, by id or folder.
    failures: Mutex<BTreeMap<String, String>>,
}

/// The services that a [`Loader`] uses.
#[derive(Debug)]
pub struct LoaderDeps {
    pub core: Core,
    pub engine: PluginEngine,
    pub calls: Calls,
    pub plugins: Plugins,
    /// The listener of pauses fills it.
    pub paused: PausedHere,
    pub secrets: PluginSecrets,
    /// Ids of the plugins that the configuration names.
    pub configured: BTreeSet<String>,
    /// Those that may have the unrestricted network.
    pub unrestricted: BTreeSet<String>,
}

impl Loader {
    pub fn new(deps: LoaderDeps) -> Self {
        Self(Arc::new(Inner { deps, failures: Mutex::default() }))
    }

    /// Whether the configuration names a plugin with this id.
    pub fn is_configured(&self, id: &str) -> bool {
        self.0.deps.configured.contains(id)
    }

    /// Loads plugins and secrets as they are stored. A plugin that can't be loaded is logged and listed as a failure; the
    /// others are loaded all the same. Grants and pauses take effect before new modules are compiled.
    ///
    /// # Errors
    /// When the store can't be read; then everything stays as it was.
    pub async fn reload(&self) -> Result<(), StoreError> {
        self.0.deps.secrets.reload().await?;
        let mut prepared = Prepared::new();
        loop {
            let mut missing = Vec::new();
            self.0
                .deps
                .plugins
                .reload(async |current| self.next(current, &prepared, &mut missing).await)
                .await?;
            if missing.is_empty() {
                return Ok(());
            }
            // Compiling takes up to a minute, so it is not done while other reloads wait.
            for row in missing {
                let ready = Box::pin(self.prepare(&row)).await?;
                prepared.insert(version(&row), ready);
            }
        }
    }

    /// After a write: as [`Self::reload`], and makes the other hosts reload.
    ///
    /// # Errors
    /// When one of these fails. The write stays, and takes effect within a minute.
    pub async fn changed(&self) -> Result<(), StoreError> {
        let announced = announce(&self.0.deps.core.db, NOTIFICATION).await;
        self.reload().await.and(announced)
    }

    /// After an operator resumed a plugin: as [`Self::changed`], and forgets its traps.
    ///
    /// # Errors
    /// As [`Self::changed`].
    pub async fn resumed(&self, id: &str) -> Result<(), StoreError> {
        self.0.deps.calls.resume(id);
        self.changed().await
    }

    /// Whether the module with this SHA-256 was compiled before.
    pub async fn has_compiled(&self, module_sha256: &str) -> bool {
        self.0.deps.engine.has_compiled(module_sha256).await
    }

    /// Compiles a plugin and compares it with its manifest. Stores nothing.
    ///
    /// # Errors
    /// The first disagreement.
    pub async fn examine(&self, package: Package) -> Result<Examined, CheckError> {
        Box::pin(check::examine(&self.0.deps.engine, &self.0.deps.calls, package)).await
    }

    /// Stores a plugin that the configuration names, unless it is stored already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn store_configured(&self, package: Package, place: Place<'_>) -> Result<(), StoreError> {
        let id = package.id().to_owned();
        let stored = plugins::get(&self.0.deps.core.db, &id).await?;
        let examined = match self.examine(package).await {
            Ok(examined) => examined,
            Err(error) => {
                self.failed(&id, error.to_string());
                return Ok(());
            }
        };
        let grants = if place.names_all_files() {
            consent::of_configured(&examined.requested, self.0.deps.unrestricted.contains(&id))
        } else {
            consent::of_low_risk(&examined.requested)
        };
        let (source, url, pinned) = match place {
            Place::Folder => (PluginSource::File, None, false),
            Place::Url { url, pinned, .. } => (PluginSource::Environment, Some(url), pinned),
        };
        let new = NewVersion { examined: &examined, grants: &grants, source, url, pinned, actor: None };
        if stored.as_ref().is_some_and(|row| new.is(row)) {
            self.failures().remove(&id);
            return Ok(());
        }
        let changes = stored.map(|row| Changes::between(&self.0.deps.plugins, &row, &examined, source, url));
        match new.store(&self.0.deps.core.db, Replaces::Any, &self.0.deps.core.clock).await? {
            Some(row) => {
                self.failures().remove(&id);
                let (actor, url) = (None, url.map(sources::shown));
                self.0.deps.core.events.record(match changes {
                    Some(changes) => Event::PluginReloaded { actor, id, url, changes: json!(changes) },
                    None => Event::PluginAdded {
                        actor,
                        id,
                        url,
                        version: examined.package.manifest.manifest.version.to_string(),
                        module_sha256: row.module_sha256,
                        granted: row.granted,
                    },
                });
            }
            None => {
                self.failed(&id, "it is being removed; start the server again when it is gone".to_owned());
            }
        }
        Ok(())
    }

    /// Keeps the reason why a plugin that the configuration names is not there. A new reason is an event.
    pub fn failed(&self, id: &str, reason: String) {
        let reason = shortened(reason);
        let before = self.failures().insert(id.to_owned(), reason.clone());
        if before.as_ref() != Some(&reason) {
            self.0.deps.core.events.record(Event::PluginRefused {
                actor: None,
                id: Some(id.to_owned()),
                url: None,
                error: reason,
            });
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored plugins that are loaded or `prepared`. The others are `missing`.
    async fn next(
        &self,
        current: &Loaded,
        prepared: &Prepared,
        missing: &mut Vec<PluginRow>,
    ) -> Result<Loaded, StoreError> {
        let mut next = Loaded::default();
        for (id, reason) in self.failures().iter() {
            next.failures.insert(id.clone(), Failure { reason: reason.clone(), version: None });
        }
        for row in plugins::list(&self.0.deps.core.db).await? {
            let Step { entry, failure, is_missing } = self.step(current, prepared, &row);
            match failure {
                Some(failure) => drop(next.failures.insert(row.id.clone(), failure)),
                None => drop(next.failures.remove(&row.id)),
            }
            if let Some(entry) = entry {
                next.plugins.insert(row.id.clone(), entry);
            }
            if is_missing {
                missing.push(row);
            }
        }
        for (plugin, failure) in &next.failures {
            if current.failures.get(plugin) != Some(failure) {
                let reason = &failure.reason;
                tracing::warn!(plugin, reason, "a plugin could not be loaded");
            }
        }
        Ok(next)
    }

    /// The step for one plugin.
    fn step(&self, current: &Loaded, prepared: &Prepared, row: &PluginRow) -> Step {
        let failed =
            |reason: String| Step { failure: Some(Failure { reason, version: None }), ..Step::default() };
        let status = match row.status {
            PluginState::Active => PluginStatus::Active,
            PluginState::Paused => PluginStatus::Paused,
            PluginState::Removing => PluginStatus::Removing,
        };
        let is_configured = matches!(row.source, PluginSource::File | PluginSource::Environment);
        // One that is being removed revokes the tokens of its accounts, wherever it came from.
        if is_configured && status != PluginStatus::Removing && !self.is_configured(&row.id) {
            let text = "it is no longer in PLUGIN_DIR or PLUGIN_URLS: put it back, or delete it here";
            return failed(text.to_owned());
        }
        let granted: Result<Vec<Permission>, _> = row.granted.iter().map(|text| text.parse()).collect();
        let grants = match granted {
            Ok(granted) => Grants::new(granted),
            Err(error) => return failed(error.to_string()),
        };
        let loaded = current.plugins.get(&row.id);
        if status == PluginStatus::Active {
            let was_paused = loaded.is_some_and(|old| old.plugin.status == PluginStatus::Paused);
            // A host may resume it before this one has read that it is paused.
            if self.0.deps.paused.take(&row.id) || was_paused {
                self.0.deps.calls.resume(&row.id);
            }
        }
        let version = version(row);
        let is_version = |entry: &&Entry| {
            [&entry.plugin.component.sha256, &entry.manifest_sha256] == [&version[0], &version[1]]
        };
        if let Some(known) = loaded.filter(is_version) {
            return Step { entry: Some(known.with(grants, status)), ..Step::default() };
        }
        // Compiling takes up to a minute, so what can't succeed is not tried again.
        if let Some(failure) = current.failures.get(&row.id)
            && failure.version.as_ref() == Some(&version)
        {
            return Step { failure: Some(failure.clone()), ..Step::default() };
        }
        let kept = || loaded.map(|old| old.kept(&grants, status));
        match prepared.get(&version) {
            None => Step { entry: kept(), failure: None, is_missing: true },
            Some(Err(failure)) => {
                let entry = if failure.version.is_none() { kept() } else { None };
                Step { entry, failure: Some(failure.clone()), is_missing: false }
            }
            Some(Ok(Ready { manifest, component, functions })) => {
                let (manifest, component, functions) =
                    (manifest.clone(), component.clone(), functions.clone());
                let plugin = Arc::new(LoadedPlugin { manifest, grants, component, status, functions });
                let entry = Entry { plugin, manifest_sha256: row.manifest_sha256.clone() };
                Step { entry: Some(entry), ..Step::default() }
            }
        }
    }

    /// Compiles the stored version of a plugin. The outer error is the store's.
    async fn prepare(&self, row: &PluginRow) -> Result<Result<Ready, Failure>, StoreError> {
        let Some(module) = plugins::module(&self.0.deps.core.db, &row.module_sha256).await? else {
            let reason = "its module is missing in the database: reload or install it again".to_owned();
            return Ok(Err(Failure { reason, version: None }));
        };
        let ready = async {
            let invalid = |text: String| CheckError::Invalid(text);
            let manifest =
                Manifest::parse(row.manifest.as_bytes()).map_err(|error| invalid(error.to_string()))?.into();
            let component = self.0.deps.engine.load(&module).await?;
            let functions = check::functions(&self.0.deps.calls, &component).await?;
            Ok(Ready { manifest, component, functions })
        };
        Ok(ready.await.map_err(|error: CheckError| Failure {
            version: (error != CheckError::Busy).then(|| version(row)),
            reason: shortened(error.to_string()),
        }))
    }
}

/// The hashes of module and manifest.
type Version = [String; 2];

fn version(row: &PluginRow) -> Version {
    [row.module_sha256.clone(), row.manifest_sha256.clone()]
}

/// The versions that a reload has compiled, or why it could not.
type Prepared = BTreeMap<Version, Result<Ready, Failure>>;

/// A version without grants and status.
#[derive(Debug)]
struct Ready {
    manifest: Arc<Manifest>,
    component: Component,
    functions: Vec<Function>,
}

/// A reload's step for a plugin. It has an entry and a failure if a version before stays in use.
#[derive(Default)]
struct Step {
    entry: Option<Entry>,
    failure: Option<Failure>,
    /// Whether its version has to be compiled.
    is_missing: bool,
}
