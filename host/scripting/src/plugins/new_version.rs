//! A version of a plugin that is about to be stored, and where it comes from.

use super::check::Examined;
use super::manifest::{Grants, Permission};
use belvedere_base::clock::Clock;
use belvedere_storage::store::plugins::{self, NewPlugin, PluginRow, PluginSource, Replaces};
use belvedere_storage::store::{Db, StoreError};

/// The place at which the configuration names a plugin.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    Folder,
    Url {
        url: &'a str,
        /// Whether the hash of its module is given.
        pinned: bool,
        /// Whether that of its manifest is given too.
        manifest_pinned: bool,
    },
}

impl Place<'_> {
    /// Whether the operator of the machine chose the manifest, and with it what the plugin asks for.
    pub(super) fn names_all_files(self) -> bool {
        matches!(self, Self::Folder | Self::Url { pinned: true, manifest_pinned: true, .. })
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
    pub(super) fn is(&self, row: &PluginRow) -> bool {
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
