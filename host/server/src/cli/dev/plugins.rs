//! The plugins in the folder of an app: each folder in `plugins` that has a `manifest.json` is installed with all that it asks for,
//! because the user of the command has chosen its files.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use http::Method;

use super::super::remote::{Remote, Server};
use super::super::{print_line, print_stderr};
use crate::app::App;
use belvedere_scripting::plugins::folder::{self, FoundPlugin};
use belvedere_scripting::plugins::install::{InstallError, Origin, Terms};
use belvedere_scripting::plugins::{Package, PluginStatus};
use belvedere_storage::store::plugins::{self, PluginRow, PluginSource, PluginState};

/// Installs the plugins of a folder.
pub(super) struct PluginFolder {
    pub(super) app: Arc<App>,
    /// The DID of the operator who installs them.
    pub(super) actor: String,
}

impl PluginFolder {
    /// Makes the installed plugins those of the folder. Prints what was done, and why a plugin was not installed; the version
    /// before stays then. Returns whether all were.
    ///
    /// # Errors
    /// When the folder or the database can't be read.
    pub(super) async fn apply(&self, folder: &Path, server: &Server) -> anyhow::Result<bool> {
        let path = folder.to_owned();
        let found = tokio::task::spawn_blocking(move || folder::read(&path)).await?;
        let found = found.with_context(|| format!("{} can't be read", folder.display()))?;
        let installed = plugins::list(&self.app.db).await?;
        let mut is_complete = true;
        for row in &installed {
            if row.source == PluginSource::Upload && !found.iter().any(|plugin| plugin.id == row.id) {
                let remote = Remote::new(server, "plugins:delete", &self.app.config)?;
                remote.send(Method::DELETE, &format!("/admin/plugins/{}", row.id), None).await?;
                print_line(&format_args!("plugin {} was removed", row.id));
            }
        }
        for FoundPlugin { id, package } in found {
            let before = installed.iter().find(|row| row.id == id);
            let done = match package {
                Ok(package) if before.is_some_and(|row| self.has(row, &package)) => continue,
                Ok(package) => self.install(package).await.map_err(|error| error.to_string()),
                Err(reason) => Err(reason),
            };
            match done {
                Ok(version) => print_line(&format_args!("plugin {id} {version} was loaded")),
                Err(reason) => {
                    print_stderr(&format!("{}: {reason}", folder.join(&id).display()));
                    is_complete = false;
                }
            }
        }
        Ok(is_complete)
    }

    /// Whether a plugin is installed with these files, and works.
    fn has(&self, row: &PluginRow, package: &Package) -> bool {
        row.module_sha256 == package.module_sha256
            && row.manifest_sha256 == package.manifest.sha256
            && row.status == PluginState::Active
            && self
                .app
                .plugins
                .loaded
                .get(&row.id)
                .is_some_and(|loaded| loaded.status == PluginStatus::Active)
    }

    /// Returns the version.
    async fn install(&self, package: Package) -> Result<String, InstallError> {
        let version = package.manifest.manifest.version.to_string();
        let (manifest, module) = (package.manifest.text.into_bytes().into(), package.module);
        let origin = Origin::Upload { manifest, module };
        let installer = &self.app.plugins.installer;
        let mut terms = Terms::default();
        let installed = match Box::pin(installer.install(origin.clone(), &terms, &self.actor)).await {
            Err(InstallError::Consent(asked, _)) => {
                terms.accepted = Some(asked.iter().map(ToString::to_string).collect());
                Box::pin(installer.install(origin, &terms, &self.actor)).await
            }
            installed => installed,
        };
        installed.map(|_| version)
    }
}
