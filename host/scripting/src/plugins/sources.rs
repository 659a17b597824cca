//! Downloads plugins. Every address is checked by the guarded client, also those that redirects lead to.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method};
use url::Url;

use super::manifest::{self, InvalidManifest};
use super::package::{MAX_MODULE, ManifestFile, Package};
use belvedere_web::net::{Client, Limits, NetError};

/// Redirects of one file. Code hosting services redirect a release's files once or twice.
const MAX_REDIRECTS: u8 = 3;

/// Time for both files together: 32 MiB at four megabits a second.
const MAX_DURATION: Duration = Duration::from_mins(1);

/// Longest URL in bytes.
const MAX_URL: usize = 2_000;

/// The name of the manifest in its folder.
const MANIFEST: &str = "manifest.json";

/// The reason why a plugin could not be downloaded. The texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    Url(String),
    #[error("{file} could not be downloaded: {reason}")]
    Fetch { file: String, reason: String },
    #[error(transparent)]
    Manifest(#[from] InvalidManifest),
}

/// The location of a plugin's manifest; the module is in the same folder (plugins.md §2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Url);

/// A downloaded plugin.
#[derive(Clone, Debug)]
pub struct Download {
    pub package: Package,
    pub manifest_url: String,
    pub wasm_url: String,
}

impl Location {
    /// Reads the URL of a manifest, of its folder, or of a module beside it.
    ///
    /// # Errors
    /// [`SourceError::Url`] for anything but an http or https URL without credentials.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let refused = |why: &str| {
            SourceError::Url(format!("url must be that of a manifest.json, its folder or a .wasm: {why}"))
        };
        if text.len() > MAX_URL {
            return Err(refused("it is too long"));
        }
        let mut url = Url::parse(text.trim()).map_err(|error| refused(&error.to_string()))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(refused("its scheme is not https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it carries credentials"));
        }
        url.set_fragment(None);
        let path = url.path().to_owned();
        let folder = match path.rsplit_once('/') {
            Some((folder, file)) if file == MANIFEST || is_module(file) => folder,
            _ => path.trim_end_matches('/'),
        };
        url.set_path(&format!("{folder}/{MANIFEST}"));
        Ok(Self(url))
    }

    /// The URL of the manifest.
    pub fn manifest(&self) -> &Url {
        &self.0
    }

    /// The URL of a file in the manifest's folder or below it. A query, which may be a key of the server, stays.
    fn file(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let folder = self.0.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        url.set_path(&format!("{folder}/{path}"));
        url
    }
}

/// A URL for people: without its query, which may be a key of the server.
pub fn shown(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

/// Downloads the manifest of a plugin and then its module.
///
/// # Errors
/// When the URL is refused, a file is missing, too large, incomplete or too slow, or the manifest is invalid.
pub async fn download(net: &Client, location: &Location) -> Result<Download, SourceError> {
    let started = Instant::now();
    let manifest = fetch(net, location.manifest(), manifest::MAX_BYTES, MAX_DURATION).await?;
    let manifest = ManifestFile::read(&manifest)?;
    let wasm_url = location.file(&manifest.manifest.wasm_file);
    let remaining = MAX_DURATION.saturating_sub(started.elapsed());
    let module = fetch(net, &wasm_url, MAX_MODULE, remaining).await?;
    Ok(Download {
        package: Package::new(manifest, module),
        manifest_url: location.manifest().to_string(),
        wasm_url: wasm_url.to_string(),
    })
}

/// Downloads one file. A body that is larger is cut while it arrives; one that is shorter than announced is an error.
pub async fn fetch(net: &Client, url: &Url, max_bytes: usize, total: Duration) -> Result<Bytes, SourceError> {
    let failed = |error: NetError| {
        let file = url.path().rsplit('/').next().unwrap_or_default();
        tracing::debug!(file, %error, "a file of a plugin could not be downloaded");
        SourceError::Fetch { file: file.to_owned(), reason: reason(&error) }
    };
    let limits = Limits { max_bytes, total };
    // Redirects have the exemptions from the guard that the first URL has.
    let each = |_: &Method, _: &Url| Ok(net.clone());
    let answer =
        Client::follow_each(Method::GET, url.as_str(), HeaderMap::new(), None, limits, MAX_REDIRECTS, each);
    let answer = answer.await.map_err(failed)?;
    if answer.status.is_success() { Ok(answer.body) } else { Err(failed(NetError::Status(answer.status))) }
}

/// The reason why a file did not arrive. One text for all that could tell which internal hosts there are; the log has
/// the cause.
fn reason(error: &NetError) -> String {
    match error {
        NetError::TooLarge(_) | NetError::Status(_) | NetError::Redirects(_) => error.to_string(),
        NetError::Refused(_)
        | NetError::Dns(_)
        | NetError::Timeout
        | NetError::Malformed(_)
        | NetError::Transport(_)
        | NetError::NoMemory
        | NetError::Setup(_) => UNREACHABLE.to_owned(),
    }
}

const UNREACHABLE: &str =
    "its server is no https server on the public internet, is out of reach, or ended the answer too early";

/// Whether a file's name is one of a module.
fn is_module(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_and_the_module_are_in_one_folder() {
        for (url, manifest) in [
            ("https://x.test/steam/plugin.wasm", "https://x.test/steam/manifest.json"),
            ("https://x.test/steam/manifest.json", "https://x.test/steam/manifest.json"),
            ("https://x.test/steam", "https://x.test/steam/manifest.json"),
            ("https://x.test/steam/", "https://x.test/steam/manifest.json"),
            ("https://x.test", "https://x.test/manifest.json"),
            ("https://x.test/a/b?key=1#top", "https://x.test/a/b/manifest.json?key=1"),
            ("https://x.test/plugin.wasm?key=1", "https://x.test/manifest.json?key=1"),
        ] {
            assert_eq!(Location::parse(url).unwrap().manifest().as_str(), manifest, "{url}");
        }
        let location = Location::parse("https://x.test/steam/?key=1").unwrap();
        assert_eq!(location.file("out/plugin.wasm").as_str(), "https://x.test/steam/out/plugin.wasm?key=1");
        assert_eq!(shown("https://x.test/steam?key=1"), "https://x.test/steam");
        for url in ["", "x", "ftp://x.test/", "file:///etc/passwd", "https://u:p@x.test/", "data:,x"] {
            assert!(Location::parse(url).is_err(), "{url}");
        }
        assert!(Location::parse(&format!("https://x.test/{}", "a".repeat(MAX_URL))).is_err());
    }

    #[test]
    fn internal_hosts_all_look_the_same() {
        let text = |text: &str| text.to_owned();
        for error in [
            NetError::Refused(text("http://10.0.0.1: a private address")),
            NetError::Dns(text("internal.test")),
            NetError::Timeout,
            NetError::Malformed(text("no HTTP")),
            NetError::Transport(text("connection refused")),
        ] {
            assert_eq!(reason(&error), UNREACHABLE);
        }
        assert_eq!(reason(&NetError::TooLarge(7)), NetError::TooLarge(7).to_string());
    }
}
