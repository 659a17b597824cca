//! Plugins that the configuration names: `PLUGIN_DIR` and `PLUGIN_URLS`. The operator of the machine chose the files of a
//! folder, and those at a URL whose hashes the entry has, so they need no further consent. Other files at a URL get only what
//! has low risk, until an admin grants more.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::folder::FoundPlugin;
use super::install::{InstallError, Installer};
use super::loading::Loader;
use super::new_version::Place;
use belvedere_instance::config::PluginUrl;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::plugins::{self, PluginRow, PluginSource};

/// Wait before a failed download is tried again; doubled each time up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// A server that stays away is asked as often as the catalogue.
const MAX_WAIT: Duration = Duration::from_mins(15);

/// The ids of all plugins that the configuration names.
pub fn ids(found: &[FoundPlugin], urls: &[PluginUrl]) -> BTreeSet<String> {
    let folders = found.iter().filter(|plugin| plugin.package.is_ok()).map(|plugin| &plugin.id);
    folders.chain(urls.iter().map(|entry| &entry.id)).cloned().collect()
}

/// Stores the plugins of `PLUGIN_DIR` that have changed since they were stored, or are new.
///
/// # Errors
/// When the store fails. A broken plugin is a failure of the loader.
pub async fn store_folder(loader: &Loader, found: Vec<FoundPlugin>) -> Result<(), StoreError> {
    for FoundPlugin { id, package } in found {
        match package {
            Ok(package) => loader.store_configured(package, Place::Folder).await?,
            Err(reason) => loader.failed(&id, reason),
        }
    }
    Ok(())
}

/// Installs the plugins of `PLUGIN_URLS` that are not stored yet, or that have another URL or hash now. Tries again what
/// fails, until the server drains. A stored one is not downloaded again.
pub async fn install_urls(
    installer: Installer,
    entries: Vec<PluginUrl>,
    in_folder: BTreeSet<String>,
    drain: CancellationToken,
) {
    let (of_folder, mut left): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| in_folder.contains(&entry.id));
    for entry in of_folder {
        tracing::warn!(
            plugin = entry.id,
            "the entry of PLUGIN_URLS is ignored: PLUGIN_DIR has the plugin too"
        );
    }
    let mut wait = FIRST_WAIT;
    while !left.is_empty() {
        let mut failed = Vec::new();
        for entry in left {
            if let Err(error) = install_url(&installer, &entry).await {
                tracing::debug!(plugin = entry.id, %error, "a plugin of PLUGIN_URLS is not installed yet");
                installer.loader.failed(&entry.id, error.to_string());
                failed.push(entry);
            }
            if let Err(error) = installer.loader.changed().await {
                tracing::warn!(%error, "plugins could not be reloaded; it is retried within a minute");
            }
        }
        left = failed;
        if left.is_empty() || drain.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        wait = (2 * wait).min(MAX_WAIT);
    }
}

async fn install_url(installer: &Installer, entry: &PluginUrl) -> Result<(), InstallError> {
    if plugins::get(&installer.db, &entry.id).await?.is_some_and(|row| is_stored(&row, entry)) {
        return Ok(());
    }
    let package = installer.download_configured(&entry.url).await?.package;
    if package.id() != entry.id {
        let text =
            format!("PLUGIN_URLS names {:?}, but the manifest has the id {:?}", entry.id, package.id());
        return Err(InstallError::Invalid(text));
    }
    if let Some(pin) = &entry.sha256
        && *pin != package.module_sha256
    {
        let text =
            format!("the module has the SHA-256 {}, not that of PLUGIN_URLS, {pin}", package.module_sha256);
        return Err(InstallError::Invalid(text));
    }
    if let Some(pin) = &entry.manifest_sha256
        && *pin != package.manifest.sha256
    {
        let found = &package.manifest.sha256;
        let text = format!("the manifest has the SHA-256 {found}, not that of PLUGIN_URLS, {pin}");
        return Err(InstallError::Invalid(text));
    }
    let place = Place::Url {
        url: &entry.url,
        pinned: entry.sha256.is_some(),
        manifest_pinned: entry.manifest_sha256.is_some(),
    };
    installer.loader.store_configured(package, place).await?;
    Ok(())
}

fn is_stored(row: &PluginRow, entry: &PluginUrl) -> bool {
    row.source == PluginSource::Environment
        && row.url.as_ref() == Some(&entry.url)
        && entry.sha256.as_ref().is_none_or(|pin| *pin == row.module_sha256)
        && entry.manifest_sha256.as_ref().is_none_or(|pin| *pin == row.manifest_sha256)
}
