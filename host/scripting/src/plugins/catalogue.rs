//! The catalogue of plugins: the releases of one repository (plugins.md §7), named by `PLUGIN_CATALOGUE_URL`. Kept in
//! memory; each host reads it for itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::manifest;
use super::package::ManifestFile;
use super::sources::{self, SourceError};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::reloadable::Reloadable;
use belvedere_web::net::Client;

/// Interval at which it is read.
const REFRESH_EVERY: Duration = Duration::from_mins(15);

/// Releases on the one page that is read, which is the most that such APIs return.
const PAGE: &str = "100";

/// Bytes of a page: 100 releases with notes of 40 KB.
const MAX_BYTES: usize = 4 << 20;

/// Time for the page, and for each manifest.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Time for all of it: 100 plugins are read one after the other.
const MAX_DURATION: Duration = Duration::from_mins(5);

/// Time that an operator waits for it. A page takes a second; manifests are read once.
const OPERATOR_MAX_WAIT: Duration = Duration::from_secs(8);

/// The reason why the catalogue could not be read. The texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("there is no catalogue: set PLUGIN_CATALOGUE_URL to the releases of a repository of plugins")]
    Off,
    #[error("the catalogue could not be read: {0}")]
    Source(#[from] SourceError),
    #[error("the catalogue is no list of releases: {0}")]
    Malformed(String),
    #[error("the catalogue could not be read within {} minutes", MAX_DURATION.as_secs() / 60)]
    Timeout,
    /// The reading in the background failed, for this reason.
    #[error("{0}")]
    Background(String),
    #[error("the catalogue is being read for the first time; try again in a moment")]
    Unknown,
}

/// The catalogue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalogue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    net: Client,
    clock: Clock,
    /// `None` turns it off.
    url: Option<Url>,
    current: Reloadable<Current>,
    /// Wakes [`Catalogue::run`].
    wanted: Notify,
    /// The result of the last reading.
    outcome: watch::Sender<Result<(), String>>,
}

#[derive(Clone, Debug, Default)]
struct Current {
    entries: BTreeMap<String, CatalogueEntry>,
    refreshed_at: Option<Timestamp>,
}

/// A plugin of the catalogue, by the manifest of its latest release.
#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub icon_url: Option<String>,
    pub manifest_url: String,
    /// The latest first; at least one.
    pub releases: Vec<CatalogueRelease>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Release")]
pub struct CatalogueRelease {
    #[schemars(with = "String")]
    pub version: Version,
    pub name: Option<String>,
    /// RFC 3339, as the repository has it.
    pub published_at: Option<String>,
    /// The release's notes.
    pub body: Option<String>,
}

/// A release as the API lists it.
#[derive(Deserialize)]
struct Listed {
    tag_name: String,
    name: Option<String>,
    body: Option<String>,
    published_at: Option<String>,
    draft: Option<bool>,
    assets: Option<Vec<Asset>>,
}

#[derive(Deserialize)]
struct Asset {
    name: String,
    browser_download_url: String,
}

/// The releases of one plugin, the latest first, with the URL of each manifest.
type Releases = Vec<(CatalogueRelease, String)>;

impl Catalogue {
    pub fn new(net: Client, clock: Clock, url: Option<Url>) -> Self {
        let (wanted, outcome) = (Notify::new(), watch::Sender::new(Ok(())));
        Self(Arc::new(Inner { net, clock, url, current: Reloadable::default(), wanted, outcome }))
    }

    /// All plugins, sorted by id.
    pub fn entries(&self) -> Vec<CatalogueEntry> {
        self.0.current.load().entries.values().cloned().collect()
    }

    /// The time at which it was read the last time.
    pub fn refreshed_at(&self) -> Option<Timestamp> {
        self.0.current.load().refreshed_at
    }

    /// The releases of a plugin that are newer than `version`, the latest first.
    pub fn newer(&self, id: &str, version: &Version) -> Vec<CatalogueRelease> {
        let current = self.0.current.load();
        let releases = current.entries.get(id).map(|entry| entry.releases.iter());
        releases.into_iter().flatten().filter(|release| release.version > *version).cloned().collect()
    }

    /// The latest version of a plugin.
    pub fn latest(&self, id: &str) -> Option<Version> {
        let current = self.0.current.load();
        current
            .entries
            .get(id)
            .and_then(|entry| entry.releases.first())
            .map(|release| release.version.clone())
    }

    /// Has the catalogue read in the background, or joins a reading that has begun. One that takes more than some
    /// seconds goes on, and what was known before stays in use until it ends.
    ///
    /// # Errors
    /// When it is off, can't be read, or was never read.
    pub async fn refresh_soon(&self) -> Result<(), CatalogueError> {
        if self.0.url.is_none() {
            return Err(CatalogueError::Off);
        }
        let mut outcome = self.0.outcome.subscribe();
        self.0.wanted.notify_one();
        match tokio::time::timeout(OPERATOR_MAX_WAIT, outcome.changed()).await {
            Ok(Ok(())) => outcome.borrow().clone().map_err(CatalogueError::Background),
            _ if self.refreshed_at().is_some() => Ok(()),
            _ => Err(CatalogueError::Unknown),
        }
    }

    /// Reads the catalogue now.
    ///
    /// # Errors
    /// When it is off or can't be read; then it stays as it was.
    async fn refresh(&self) -> Result<(), CatalogueError> {
        let Inner { net, clock, url, current, .. } = &*self.0;
        let url = url.as_ref().ok_or(CatalogueError::Off)?;
        let read = current.reload(async |current| {
            let mut page = url.clone();
            if page.query().is_none() {
                page.query_pairs_mut().append_pair("per_page", PAGE);
            }
            let page = sources::fetch(net, &page, MAX_BYTES, MAX_WAIT).await?;
            let mut entries = BTreeMap::new();
            for (id, releases) in releases_by_plugin(&page)? {
                if let Some(entry) = entry(net, current, &id, releases).await {
                    entries.insert(id, entry);
                }
            }
            Ok(Current { entries, refreshed_at: Some(clock.now()) })
        });
        tokio::time::timeout(MAX_DURATION, read).await.unwrap_or(Err(CatalogueError::Timeout))
    }

    /// Reads the catalogue now, every 15 minutes and when it is wanted, until the server drains. Returns at once when it is
    /// off.
    pub async fn run(self, drain: CancellationToken) {
        let round = async {
            while self.0.url.is_some() {
                let read = self.refresh().await;
                if let Err(error) = &read {
                    tracing::warn!(%error, "the catalogue of plugins stays as it was");
                }
                drop(self.0.outcome.send_replace(read.map_err(|error| error.to_string())));
                // Ends at once when it was wanted; the result does not matter.
                let _ = tokio::time::timeout(REFRESH_EVERY, self.0.wanted.notified()).await;
            }
        };
        drain.run_until_cancelled(round).await;
    }
}

/// A plugin whose latest manifest is known or can be read; `None`, which is logged, for another.
async fn entry(net: &Client, current: &Current, id: &str, releases: Releases) -> Option<CatalogueEntry> {
    let (latest, manifest_url) = releases.first()?;
    let (latest, manifest_url) = (latest.version.clone(), manifest_url.clone());
    let releases: Vec<CatalogueRelease> = releases.into_iter().map(|(release, _)| release).collect();
    let known = current.entries.get(id);
    if let Some(known) = known.filter(|known| known.manifest_url == manifest_url) {
        return Some(CatalogueEntry { releases, ..known.clone() });
    }
    match read_manifest(net, &manifest_url).await {
        Ok(file) if file.manifest.id == id && file.manifest.version == latest => {
            let manifest::Manifest { name, description, icon_url, .. } = file.manifest;
            Some(CatalogueEntry { id: id.to_owned(), name, description, icon_url, manifest_url, releases })
        }
        Ok(file) => {
            let (found, version) = (file.manifest.id, file.manifest.version.to_string());
            tracing::warn!(plugin = id, found, version, "the manifest of a release is that of another one");
            known.cloned()
        }
        Err(error) => {
            tracing::warn!(plugin = id, %error, "the manifest of the latest release can't be read");
            known.cloned()
        }
    }
}

async fn read_manifest(net: &Client, url: &str) -> Result<ManifestFile, SourceError> {
    let url = Url::parse(url).map_err(|error| SourceError::Url(error.to_string()))?;
    Ok(ManifestFile::read(&sources::fetch(net, &url, manifest::MAX_BYTES, MAX_WAIT).await?)?)
}

/// Sorts a page of releases by plugin. Drafts, other tags and releases without a manifest are left out.
fn releases_by_plugin(page: &[u8]) -> Result<BTreeMap<String, Releases>, CatalogueError> {
    let malformed = |error: serde_json::Error| CatalogueError::Malformed(error.to_string());
    let listed: Vec<Listed> = serde_json::from_slice(page).map_err(malformed)?;
    let mut plugins: BTreeMap<String, Releases> = BTreeMap::new();
    for release in listed.into_iter().filter(|release| release.draft != Some(true)) {
        let Some((id, version)) = parse_tag(&release.tag_name) else { continue };
        let assets = release.assets.unwrap_or_default();
        let Some(manifest) = assets.into_iter().find(|asset| asset.name == "manifest.json") else { continue };
        let Listed { name, published_at, body, .. } = release;
        let entry = CatalogueRelease { version, name, published_at, body };
        plugins.entry(id.to_owned()).or_default().push((entry, manifest.browser_download_url));
    }
    for releases in plugins.values_mut() {
        releases.sort_by(|(a, _), (b, _)| b.version.cmp(&a.version));
    }
    Ok(plugins)
}

/// Reads `<id>-v<semver>`.
fn parse_tag(tag: &str) -> Option<(&str, Version)> {
    tag.match_indices("-v").find_map(|(at, separator)| {
        let version = Version::parse(&tag[at + separator.len()..]).ok()?;
        (at > 0).then_some((&tag[..at], version))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tags_name_plugin_and_version() {
        let parsed = |tag| parse_tag(tag).map(|(id, version)| (id, version.to_string()));
        assert_eq!(parsed("steam-v1.2.0"), Some(("steam", "1.2.0".to_owned())));
        assert_eq!(parsed("my-viewer-v0.1.0-rc.1"), Some(("my-viewer", "0.1.0-rc.1".to_owned())));
        for tag in ["v1.0.0", "-v1.0.0", "steam-1.0.0", "steam-v1", "steam", ""] {
            assert_eq!(parsed(tag), None, "{tag}");
        }
    }

    #[test]
    fn releases_are_sorted_by_version() {
        let release = |tag: &str, asset: &str| {
            json!({ "tag_name": tag, "assets": [{ "name": asset,
                "browser_download_url": format!("https://x.test/{tag}/{asset}") }] })
        };
        let mut draft = release("steam-v9.0.0", "manifest.json");
        draft["draft"] = true.into();
        let page = json!([
            release("steam-v1.9.0", "manifest.json"),
            release("steam-v1.10.0", "manifest.json"),
            release("steam-v2.0.0-beta", "manifest.json"),
            release("steam-v3.0.0", "plugin.wasm"),
            release("xbox-v1.0.0", "manifest.json"),
            release("nightly", "manifest.json"),
            draft,
            { "tag_name": "bare-v1.0.0" },
        ]);
        let plugins = releases_by_plugin(page.to_string().as_bytes()).unwrap();
        let versions: Vec<String> = plugins["steam"].iter().map(|(one, _)| one.version.to_string()).collect();
        assert_eq!(versions, ["2.0.0-beta", "1.10.0", "1.9.0"]);
        assert_eq!(plugins["steam"][0].1, "https://x.test/steam-v2.0.0-beta/manifest.json");
        assert_eq!(plugins.keys().collect::<Vec<_>>(), ["steam", "xbox"]);
        for page in ["{}", "[{}]", "x"] {
            assert!(matches!(releases_by_plugin(page.as_bytes()), Err(CatalogueError::Malformed(_))));
        }
    }
}
