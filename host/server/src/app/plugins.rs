//! The plugins of the server, and what installs and removes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;

use super::App;
use super::open::StartError;
use super::startup::Startup;
use belvedere_instance::core::Core;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_scripting::plugins::calls::Calls;
use belvedere_scripting::plugins::catalogue::Catalogue;
use belvedere_scripting::plugins::configured;
use belvedere_scripting::plugins::folder;
use belvedere_scripting::plugins::install::Installer;
use belvedere_scripting::plugins::loading::{Loader, LoaderDeps};
use belvedere_scripting::plugins::removal::Removals;
use belvedere_scripting::plugins::secrets::PluginSecrets;
use belvedere_scripting::plugins::{
    CompileLimits, Compiler, EngineConfig, PausedHere, PluginEngine, PluginServices, Plugins,
};
use belvedere_wasm::sandbox::MemoryPool;

#[derive(Debug)]
pub struct PluginParts {
    /// The loaded plugins.
    pub loaded: Plugins,
    pub calls: Calls,
    pub loader: Loader,
    pub installer: Installer,
    pub removals: Removals,
    pub secrets: PluginSecrets,
    pub catalogue: Catalogue,
    /// Ids of plugins in `PLUGIN_DIR`.
    in_folder: BTreeSet<String>,
    /// Notified when a call has paused its plugin.
    paused: Arc<Notify>,
    /// Notified when another host has changed plugins.
    changed: Arc<Notify>,
}

impl PluginParts {
    /// Loads the stored plugins, and those of `PLUGIN_DIR`.
    pub(super) async fn open(
        startup: &Startup,
        attestation: &Arc<Attestation>,
        memory_of_runs: MemoryPool,
    ) -> Result<Self, StartError> {
        let Startup { core, config, .. } = startup;
        let Core { db, clock, random, events, sealing, net, .. } = core;
        let cache_dir = config.server.data_dir.join("cache");
        let compile_limits = CompileLimits::beside(config.memory.limit);
        let config = &config.plugins;
        let unreadable = |error| StartError::PluginDir { path: config.dir.clone(), error };
        let dir = config.dir.clone();
        let found = tokio::task::spawn_blocking(move || folder::read(&dir));
        let found = found.await.map_err(std::io::Error::other).flatten().map_err(unreadable)?;
        let in_folder = configured::ids(&found, &[]);

        let (registry, has_paused) = (Plugins::default(), Arc::new(Notify::new()));
        let all_configured = configured::ids(&found, &config.urls);
        let secrets =
            PluginSecrets::new(db.clone(), sealing.clone(), config.secrets.clone(), &all_configured);
        let engine = PluginEngine::open(EngineConfig {
            cache_dir,
            pool_size: config.pool_size,
            processor: startup.processor.clone(),
            memory: memory_of_runs,
            compiler: Compiler::this_program(compile_limits),
        })?;
        let (for_calls, wake, paused_here) =
            (secrets.clone(), Arc::clone(&has_paused), PausedHere::default());
        let listener = paused_here.clone();
        let services = PluginServices::new(
            db.clone(),
            net.clone(),
            clock.clone(),
            random.clone(),
            events.clone(),
            Arc::clone(attestation),
        )
        .with_secrets(Arc::new(move |plugin, name| for_calls.get(plugin, name)))
        .with_pause_listener(Arc::new(move |id| {
            listener.add(id);
            wake.notify_one();
        }));
        let calls = Calls::new(engine.clone(), services);
        let loader = Loader::new(LoaderDeps {
            core: core.clone(),
            engine,
            calls: calls.clone(),
            plugins: registry.clone(),
            paused: paused_here,
            secrets: secrets.clone(),
            configured: all_configured,
            unrestricted: config.unrestricted.clone(),
        });
        let store_error = |error| startup.store_error(error);
        configured::store_folder(&loader, found).await.map_err(store_error)?;
        loader.reload().await.map_err(store_error)?;
        Ok(Self {
            installer: Installer::new(
                db.clone(),
                clock.clone(),
                net.clone(),
                loader.clone(),
                registry.clone(),
            ),
            removals: Removals::new(db.clone(), loader.clone()),
            catalogue: Catalogue::new(net.clone(), clock.clone(), config.catalogue_url.clone()),
            loaded: registry,
            calls,
            loader,
            secrets,
            in_folder,
            paused: has_paused,
            changed: Arc::default(),
        })
    }

    /// Lets a task of its own reload plugins, which may compile them for a minute.
    pub(super) fn wake_reload(&self) {
        self.changed.notify_one();
    }
}

impl App {
    /// Starts what runs in the background for plugins, until the server drains.
    pub(super) fn start_plugins(&self) {
        let PluginParts { loader, installer, removals, catalogue, in_folder, paused, changed, .. } =
            &self.plugins;
        let drain = &self.lifecycle.drain;
        self.tasks.spawn(removals.clone().run(drain.clone()));
        self.tasks.spawn(catalogue.clone().run(drain.clone()));
        let urls = self.config.plugins.urls.clone();
        let (reloader, changed, ending) = (loader.clone(), Arc::clone(changed), drain.clone());
        self.tasks.spawn(async move {
            let reloads = async {
                loop {
                    changed.notified().await;
                    if let Err(error) = reloader.reload().await {
                        tracing::warn!(%error, "plugins could not be reloaded; it is retried within a minute");
                    }
                }
            };
            ending.run_until_cancelled(reloads).await;
        });
        let (loader, paused, ending) = (loader.clone(), Arc::clone(paused), drain.clone());
        self.tasks.spawn(async move {
            while ending.run_until_cancelled(paused.notified()).await.is_some() {
                if let Err(error) = loader.changed().await {
                    tracing::warn!(%error, "the pause of a plugin is announced within a minute");
                }
            }
        });
        self.tasks.spawn(configured::install_urls(installer.clone(), urls, in_folder.clone(), drain.clone()));
    }
}
