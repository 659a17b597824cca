//! Installs plugins, loads new versions of them, and changes their grants.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::check::{CheckError, Examined};
use super::consent::{self, ConsentError, Decided};
use super::loading::{Loader, NewVersion, texts};
use super::manifest::{Grants, InvalidManifest, Permission};
use super::package::{ManifestFile, Package};
use super::registry::Plugins;
use super::sources::{self, Download, Location, SourceError};
use crate::clock::Clock;
use crate::net::Client;
use crate::store::plugins::{self, PluginRow, PluginSource, PluginState, Replaces};
use crate::store::{Db, StoreError};

/// Plugins that are downloaded or examined at the same time: each is up to 32 MiB in memory, and compiling takes a core.
const MAX_AT_ONCE: usize = 4;

/// How long a further one waits. A download ends within a minute.
const PATIENCE: Duration = Duration::from_secs(30);

/// Digits of a SHA-256.
const HEX_DIGITS: usize = 64;

/// Installs plugins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Installer {
    pub db: Db,
    pub clock: Clock,
    pub net: Client,
    pub loader: Loader,
    pub plugins: Plugins,
    places: Arc<Semaphore>,
}

/// Why a plugin was not installed. The texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Conflict(String),
    #[error("too many plugins are being installed or running; try again in a moment")]
    Busy,
    /// With what would change, of a new version.
    #[error("the plugin asks for permissions: accept or deny each in accepted_capabilities")]
    Consent(Vec<Permission>, Option<Box<Changes>>),
    #[error("the database failed")]
    Store(#[from] StoreError),
}

impl From<SourceError> for InstallError {
    fn from(error: SourceError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<InvalidManifest> for InstallError {
    fn from(error: InvalidManifest) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<CheckError> for InstallError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Invalid(text) => Self::Invalid(text),
            CheckError::Busy => Self::Busy,
        }
    }
}

/// Which files an operator wants to install.
#[derive(Clone, Debug)]
pub enum Origin {
    Url(String),
    Upload { manifest: Bytes, module: Bytes },
}

/// What an operator says about the files.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The only hash of the module that is accepted, in hex of either case.
    pub sha256: Option<String>,
    /// Texts of the permissions to grant.
    pub accepted: Option<Vec<String>>,
}

/// A plugin that was looked at and not stored.
#[derive(Clone, Debug)]
pub struct Preview {
    pub examined: Examined,
    /// Of downloaded ones.
    pub manifest_url: Option<String>,
    pub wasm_url: Option<String>,
}

/// What differs between two versions of a plugin.
#[derive(Clone, Debug, Serialize)]
pub struct Changes {
    pub version: Change,
    pub sha256: Change,
    pub manifest_sha256: Change,
    /// `None` if the version before could not be loaded.
    pub imports: Option<Difference>,
    pub permissions: Difference,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl Difference {
    fn between<T: ToString>(before: &[T], after: &[T]) -> Self {
        let texts = |list: &[T]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (before, after) = (texts(before), texts(after));
        let missing_in = |other: &[String], list: &[String]| {
            list.iter().filter(|one| !other.contains(one)).cloned().collect()
        };
        Self { added: missing_in(&before, &after), removed: missing_in(&after, &before) }
    }
}

impl Installer {
    pub fn new(db: Db, clock: Clock, net: Client, loader: Loader, plugins: Plugins) -> Self {
        Self { db, clock, net, loader, plugins, places: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// Downloads and examines a plugin. Stores nothing.
    ///
    /// # Errors
    /// When the plugin can't be used.
    pub async fn preview(&self, origin: Origin, terms: &Terms) -> Result<Preview, InstallError> {
        let _place = self.place().await?;
        let (package, manifest_url, wasm_url) = match origin {
            Origin::Url(url) => {
                let Download { package, manifest_url, wasm_url } = self.download(&url).await?;
                (package, Some(sources::shown(&manifest_url)), Some(sources::shown(&wasm_url)))
            }
            Origin::Upload { manifest, module } => {
                (Package::new(ManifestFile::read(&manifest)?, module), None, None)
            }
        };
        let pin = terms.sha256.as_deref().map(parse_sha256).transpose()?;
        check_pin(&package, pin.as_deref())?;
        Ok(Preview { examined: self.loader.examine(package).await?, manifest_url, wasm_url })
    }

    /// Installs a plugin, or replaces the one with its id. Takes effect on this host before it returns.
    ///
    /// # Errors
    /// When the plugin can't be used, or its permissions were neither accepted nor denied. Then nothing is stored.
    pub async fn install(
        &self,
        origin: Origin,
        terms: &Terms,
        actor: &str,
    ) -> Result<PluginRow, InstallError> {
        let accepted = parse_permissions(terms.accepted.as_deref())?;
        let (source, url) = match &origin {
            Origin::Url(url) => (PluginSource::Url, Some(url.clone())),
            Origin::Upload { .. } => (PluginSource::Upload, None),
        };
        let examined = self.preview(origin, terms).await?.examined;
        let grants =
            decide(&examined, accepted.as_deref(), None).map_err(|error| consent_error(error, None))?;
        check_imports(&examined, &grants)?;
        let new = NewVersion {
            examined: &examined,
            grants: &grants,
            source,
            url: url.as_deref(),
            pinned: terms.sha256.is_some(),
            actor: Some(actor),
        };
        let row = new.store(&self.db, Replaces::Any, &self.clock).await?;
        let row = row.ok_or_else(|| InstallError::Conflict(BEING_REMOVED.to_owned()))?;
        self.loader.changed().await?;
        Ok(row)
    }

    /// Loads the version that is at the plugin's URL, or at a new one. The version before stays if that fails. Running
    /// calls end with the version that they began with.
    ///
    /// # Errors
    /// As [`Self::install`]; also when the plugin has no URL or has changed in the meantime.
    pub async fn reload(
        &self,
        before: &PluginRow,
        url: Option<String>,
        terms: &Terms,
        actor: &str,
    ) -> Result<(PluginRow, Changes), InstallError> {
        if before.status == PluginState::Removing {
            return Err(InstallError::Conflict(BEING_REMOVED.to_owned()));
        }
        if before.source == PluginSource::File {
            let text =
                "the plugin is a folder in PLUGIN_DIR: replace its files there and start the server again";
            return Err(InstallError::Invalid(text.to_owned()));
        }
        let accepted = parse_permissions(terms.accepted.as_deref())?;
        let is_moved = url.is_some();
        let Some(url) = url.or_else(|| before.url.clone()) else {
            let text =
                "the plugin was uploaded: upload its new version with POST /admin/plugins, or name a url";
            return Err(InstallError::Invalid(text.to_owned()));
        };
        let _place = self.place().await?;
        let package = self.download(&url).await?.package;
        if package.id() != before.id {
            let text = format!("the manifest at the url has the id {:?}, not {:?}", package.id(), before.id);
            return Err(InstallError::Invalid(text));
        }
        let pin = terms.sha256.as_deref().map(parse_sha256).transpose()?;
        // A new URL drops the pin; a new pin replaces it.
        let kept = (before.pinned && !is_moved).then(|| before.module_sha256.clone());
        let pin = pin.or(kept);
        check_pin(&package, pin.as_deref())?;
        let examined = self.loader.examine(package).await?;
        let changes = self.changes(before, &examined);
        let decided = decided(before);
        let grants = decide(&examined, accepted.as_deref(), Some(&decided))
            .map_err(|error| consent_error(error, Some(&changes)))?;
        check_imports(&examined, &grants)?;
        let source = if is_moved { PluginSource::Url } else { before.source };
        let new = NewVersion {
            examined: &examined,
            grants: &grants,
            source,
            url: Some(&url),
            pinned: pin.is_some(),
            actor: Some(actor),
        };
        let row = new.store(&self.db, Replaces::Version(before), &self.clock).await?;
        let row = row.ok_or_else(|| {
            InstallError::Conflict(
                "the plugin was changed or deleted at the same time; look at it again".to_owned(),
            )
        })?;
        self.loader.changed().await?;
        Ok((row, changes))
    }

    /// Replaces the grants of a plugin. Takes effect for calls that begin afterwards.
    ///
    /// # Errors
    /// When the plugin does not ask for a permission, or its module imports one that would be missing.
    pub async fn set_grants(&self, row: &PluginRow, granted: &[String]) -> Result<PluginRow, InstallError> {
        if row.source == PluginSource::File {
            let text = "the plugin is a folder in PLUGIN_DIR, which grants what its manifest asks for";
            return Err(InstallError::Invalid(text.to_owned()));
        }
        let accepted = parse_permissions(Some(granted))?.unwrap_or_default();
        let requested = decided(row).requested;
        let grants =
            consent::decide(&requested, Some(&accepted), None).map_err(|error| consent_error(error, None))?;
        if let Some(plugin) = self.plugins.get(&row.id)
            && let Some(text) = consent::missing(&plugin.component.imports, &requested, &grants)
        {
            return Err(InstallError::Invalid(text));
        }
        let changed = plugins::set_granted(&self.db, &row.id, &row.requested, &texts(grants.iter())).await?;
        let changed = changed.ok_or_else(|| {
            InstallError::Conflict(
                "the plugin was changed or deleted at the same time; look at it again".to_owned(),
            )
        })?;
        self.loader.changed().await?;
        Ok(changed)
    }

    /// Downloads a plugin without examining it.
    ///
    /// # Errors
    /// As [`sources::download`].
    pub async fn download(&self, url: &str) -> Result<Download, InstallError> {
        Ok(sources::download(&self.net, &Location::parse(url)?).await?)
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>, InstallError> {
        let place = tokio::time::timeout(PATIENCE, self.places.acquire()).await;
        place.ok().and_then(Result::ok).ok_or(InstallError::Busy)
    }

    fn changes(&self, before: &PluginRow, examined: &Examined) -> Changes {
        let package = &examined.package;
        let old = ManifestFile::read(before.manifest.as_bytes()).ok();
        let version = old.map(|file| file.manifest.version.to_string()).unwrap_or_default();
        let loaded = self.plugins.get(&before.id);
        let loaded = loaded.filter(|plugin| plugin.component.sha256 == before.module_sha256);
        let requested = texts(examined.requested.iter());
        Changes {
            version: Change { from: version, to: package.manifest.manifest.version.to_string() },
            sha256: Change { from: before.module_sha256.clone(), to: package.module_sha256.clone() },
            manifest_sha256: Change {
                from: before.manifest_sha256.clone(),
                to: package.manifest.sha256.clone(),
            },
            imports: loaded
                .map(|old| Difference::between(&old.component.imports, &examined.component.imports)),
            permissions: Difference::between(&before.requested, &requested),
        }
    }
}

const BEING_REMOVED: &str = "the plugin is being removed; try again in a moment";

fn decide(
    examined: &Examined,
    accepted: Option<&[Permission]>,
    before: Option<&Decided>,
) -> Result<Grants, ConsentError> {
    consent::decide(&examined.requested, accepted, before)
}

fn consent_error(error: ConsentError, changes: Option<&Changes>) -> InstallError {
    match error {
        ConsentError::Required(permissions) => {
            InstallError::Consent(permissions, changes.cloned().map(Box::new))
        }
        ConsentError::NotRequested(permission) => InstallError::Invalid(format!(
            "the plugin does not ask for {permission}: remove it from the list"
        )),
    }
}

fn check_imports(examined: &Examined, grants: &Grants) -> Result<(), InstallError> {
    let missing = consent::missing(&examined.component.imports, &examined.requested, grants);
    missing.map_or(Ok(()), |text| Err(InstallError::Invalid(text)))
}

/// What was asked for and granted so far. Texts of another version of this program count as not decided.
fn decided(row: &PluginRow) -> Decided {
    let read = |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect();
    Decided { requested: read(&row.requested), granted: read(&row.granted) }
}

fn parse_permissions(texts: Option<&[String]>) -> Result<Option<Vec<Permission>>, InstallError> {
    let parse = |texts: &[String]| texts.iter().map(|text| text.parse::<Permission>()).collect();
    texts
        .map(parse)
        .transpose()
        .map_err(|error: super::manifest::InvalidPermission| InstallError::Invalid(error.to_string()))
}

/// A SHA-256 in hex of either case, in lower case.
fn parse_sha256(text: &str) -> Result<String, InstallError> {
    if text.len() == HEX_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(InstallError::Invalid(format!("sha256 must have {HEX_DIGITS} hex digits")))
}

fn check_pin(package: &Package, pin: Option<&str>) -> Result<(), InstallError> {
    match pin {
        Some(pin) if pin != package.module_sha256 => Err(InstallError::Invalid(format!(
            "the module has the SHA-256 {}, not the expected {pin}",
            package.module_sha256
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_compared_in_lower_case() {
        assert_eq!(parse_sha256(&"AB".repeat(32)).unwrap(), "ab".repeat(32));
        for bad in ["", "ab", &"zz".repeat(32), &format!("sha256:{}", "ab".repeat(32)), &"é".repeat(32)] {
            assert!(parse_sha256(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn differences_list_what_was_added_and_removed() {
        let difference = Difference::between(&["log", "http"], &["http", "kv"]);
        assert_eq!(difference, Difference { added: vec!["kv".to_owned()], removed: vec!["log".to_owned()] });
    }
}
