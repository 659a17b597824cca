//! The plugins of the server, and what installs and removes them.

use super::App;
use super::ground::Ground;
use super::open::StartError;
use super::outbound::Outbound;
use crate::plugins::calls::Calls;
use crate::plugins::catalogue::Catalogue;
use crate::plugins::configured;
use crate::plugins::folder;
use crate::plugins::install::Installer;
use crate::plugins::loading::{Loader, LoaderDeps};
use crate::plugins::removal::Removals;
use crate::plugins::secrets::PluginSecrets;
use crate::plugins::{PluginEngine, Plugins};

#[derive(Debug)]
pub struct PluginParts {
    /// The loaded plugins.
    pub loaded: Plugins,
    pub loader: Loader,
    pub installer: Installer,
    pub removals: Removals,
    pub secrets: PluginSecrets,
    pub catalogue: Catalogue,
    /// Ids of plugins in `PLUGIN_DIR`.
    in_folder: std::collections::BTreeSet<String>,
}

impl PluginParts {
    /// Loads the stored plugins, and those of `PLUGIN_DIR`.
    pub(super) async fn open(ground: &Ground, outbound: &Outbound) -> Result<Self, StartError> {
        let Ground { db, clock, sealing, config, .. } = ground;
        let config = &config.plugins;
        let unreadable = |error| StartError::PluginDir { path: config.dir.clone(), error };
        let dir = config.dir.clone();
        let found = tokio::task::spawn_blocking(move || folder::read(&dir));
        let found = found.await.map_err(std::io::Error::other).flatten().map_err(unreadable)?;
        let in_folder = configured::ids(&found, &[]);

        let (engine, calls, loaded) = (PluginEngine, Calls, Plugins::default());
        let secrets = PluginSecrets::new(db.clone(), sealing.clone(), config.secrets.clone());
        let loader = Loader::new(LoaderDeps {
            db: db.clone(),
            clock: clock.clone(),
            engine,
            calls,
            plugins: loaded.clone(),
            secrets: secrets.clone(),
            configured: configured::ids(&found, &config.urls),
            unrestricted: config.unrestricted.clone(),
        });
        let store_error = |error| ground.store_error(error);
        configured::store_folder(&loader, found).await.map_err(store_error)?;
        loader.reload().await.map_err(store_error)?;
        let net = outbound.net.clone();
        Ok(Self {
            installer: Installer::new(db.clone(), clock.clone(), net.clone(), loader.clone(), loaded.clone()),
            removals: Removals::new(db.clone(), loader.clone()),
            catalogue: Catalogue::new(net, clock.clone(), config.catalogue_url.clone()),
            loaded,
            loader,
            secrets,
            in_folder,
        })
    }
}

impl App {
    /// Starts what runs in the background for plugins, until the server drains.
    pub(super) fn start_plugins(&self) {
        let PluginParts { installer, removals, catalogue, in_folder, .. } = &self.plugins;
        let drain = &self.lifecycle.drain;
        self.tasks.spawn(removals.clone().run(drain.clone()));
        self.tasks.spawn(catalogue.clone().run(drain.clone()));
        let urls = self.config.plugins.urls.clone();
        self.tasks.spawn(configured::install_urls(installer.clone(), urls, in_folder.clone(), drain.clone()));
    }
}
