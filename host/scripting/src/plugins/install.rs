//! Installs plugins, loads new versions of them, and changes their grants.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::changes::Changes;
use super::check::{self, CheckError, Examined, Inspected};
use super::consent::{self, ConsentError, Decided};
use super::loading::Loader;
use super::manifest::{Grants, InvalidManifest, Permission};
use super::new_version::{NewVersion, texts};
use super::package::{ManifestFile, Package};
use super::registry::Plugins;
use super::sources::{self, Download, Location, SourceError};
use belvedere_base::clock::Clock;
use belvedere_storage::store::plugins::{self, PluginRow, PluginSource, PluginState, Replaces};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::net::Client;

/// Plugins that are downloaded or examined at the same time: each is up to 32 MiB in memory, and compiling takes a core.
const MAX_AT_ONCE: usize = 4;

/// Time that a further one waits. A download ends within a minute.
const MAX_WAIT: Duration = Duration::from_secs(30);

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
    permits: Arc<Semaphore>,
}

/// The reason why a plugin was not installed. The texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Conflict(String),
    #[error("too many plugins are being installed or running; try again in a moment")]
    Busy,
    /// With what would change, of a plugin that would be replaced.
    #[error("the plugin needs consent: list the permissions that you grant in accepted_capabilities")]
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

/// The files that an operator wants to install.
#[derive(Clone, Debug)]
pub enum Origin {
    Url(String),
    Upload { manifest: Bytes, module: Bytes },
}

/// The operator's conditions for the files.
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
    pub inspected: Inspected,
    /// Whether its module was compiled before, so that installing it compiles nothing.
    pub is_compiled: bool,
    /// The URL of a downloaded manifest.
    pub manifest_url: Option<String>,
    pub wasm_url: Option<String>,
}

/// The files of a plugin, with the URLs of downloaded ones.
struct Fetched {
    package: Package,
    manifest_url: Option<String>,
    wasm_url: Option<String>,
}

impl Installer {
    pub fn new(db: Db, clock: Clock, net: Client, loader: Loader, plugins: Plugins) -> Self {
        Self { db, clock, net, loader, plugins, permits: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// Downloads a plugin and reads what it is and asks for. Neither compiles nor stores anything.
    ///
    /// # Errors
    /// When the plugin can't be used.
    pub async fn preview(&self, origin: Origin, terms: &Terms) -> Result<Preview, InstallError> {
        let _permit = self.permit().await?;
        let Fetched { package, manifest_url, wasm_url } = self.fetch(origin, terms).await?;
        let inspected = check::inspect(package).await?;
        let is_compiled = self.loader.has_compiled(&inspected.package.module_sha256).await;
        Ok(Preview { inspected, is_compiled, manifest_url, wasm_url })
    }

    /// Installs a plugin, or replaces the one with its id. Takes effect on this host before it returns.
    ///
    /// # Errors
    /// When the plugin can't be used, the configuration names its id, or its permissions were neither accepted nor denied.
    /// A replacement from another place needs a list of accepted permissions in any case. Then nothing is stored.
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
        let _permit = self.permit().await?;
        let package = self.fetch(origin, terms).await?.package;
        if self.loader.is_configured(package.id()) {
            return Err(InstallError::Conflict(CONFIGURED.to_owned()));
        }
        let before = plugins::get(&self.db, package.id()).await?;
        let examined = self.loader.examine(package).await?;
        let changes = before
            .as_ref()
            .map(|row| Changes::between(&self.plugins, row, &examined, source, url.as_deref()));
        if accepted.is_none() && changes.as_ref().is_some_and(Changes::is_elsewhere) {
            return Err(InstallError::Consent(examined.requested, changes.map(Box::new)));
        }
        let grants = decide(&examined, accepted.as_deref(), None)
            .map_err(|error| consent_error(error, changes.as_ref()))?;
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
    /// calls end with the version that they began with. A version from another place keeps no grants.
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
        let is_moved = url.as_ref().is_some_and(|new| !is_same(new, before.url.as_deref()));
        if is_moved && self.loader.is_configured(&before.id) {
            return Err(InstallError::Conflict(CONFIGURED.to_owned()));
        }
        let Some(url) = url.or_else(|| before.url.clone()) else {
            let text =
                "the plugin was uploaded: upload its new version with POST /admin/plugins, or name a url";
            return Err(InstallError::Invalid(text.to_owned()));
        };
        let _permit = self.permit().await?;
        let source = if is_moved { PluginSource::Url } else { before.source };
        let net = match source {
            PluginSource::Environment => self.net.clone(),
            _ => self.net.without_exemptions(),
        };
        let package = sources::download(&net, &Location::parse(&url)?).await?.package;
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
        let changes = Changes::between(&self.plugins, before, &examined, source, Some(&url));
        if accepted.is_none() && changes.is_elsewhere() {
            return Err(InstallError::Consent(examined.requested, Some(Box::new(changes))));
        }
        let decided = (!changes.is_elsewhere()).then(|| decided(before));
        let grants = decide(&examined, accepted.as_deref(), decided.as_ref())
            .map_err(|error| consent_error(error, Some(&changes)))?;
        check_imports(&examined, &grants)?;
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

    /// Downloads a plugin that the configuration names, also from a host of `OUTBOUND_ALLOW`.
    ///
    /// # Errors
    /// As [`sources::download`].
    pub async fn download_configured(&self, url: &str) -> Result<Download, InstallError> {
        Ok(sources::download(&self.net, &Location::parse(url)?).await?)
    }

    /// The files that an admin names, with their hash checked.
    async fn fetch(&self, origin: Origin, terms: &Terms) -> Result<Fetched, InstallError> {
        let (package, manifest_url, wasm_url) = match origin {
            Origin::Url(url) => {
                let net = self.net.without_exemptions();
                let Download { package, manifest_url, wasm_url } =
                    sources::download(&net, &Location::parse(&url)?).await?;
                (package, Some(sources::shown(&manifest_url)), Some(sources::shown(&wasm_url)))
            }
            Origin::Upload { manifest, module } => {
                (Package::new(ManifestFile::read(&manifest)?, module), None, None)
            }
        };
        let pin = terms.sha256.as_deref().map(parse_sha256).transpose()?;
        check_pin(&package, pin.as_deref())?;
        Ok(Fetched { package, manifest_url, wasm_url })
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, InstallError> {
        let permit = tokio::time::timeout(MAX_WAIT, self.permits.acquire()).await;
        permit.ok().and_then(Result::ok).ok_or(InstallError::Busy)
    }
}

const CONFIGURED: &str =
    "the plugin is named by PLUGIN_DIR or PLUGIN_URLS: change its files or its entry there";
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

/// The permissions that were asked for and granted so far. Texts of another version of this program count as not
/// decided.
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

/// Whether a URL names the same plugin as the stored one.
fn is_same(new: &str, stored: Option<&str>) -> bool {
    match (Location::parse(new), stored.map(Location::parse)) {
        (Ok(new), Some(Ok(stored))) => new == stored,
        _ => false,
    }
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
}
