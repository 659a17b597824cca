//! The differences of two versions of a plugin, for the operator who decides about the new one.

use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use super::check::Examined;
use super::new_version::texts;
use super::package::ManifestFile;
use super::registry::Plugins;
use belvedere_storage::store::plugins::{PluginRow, PluginSource};

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginChanges")]
pub struct Changes {
    pub version: Change,
    /// The origin of the files: the origin of a URL, `upload` or `folder`.
    pub origin: Change,
    pub sha256: Change,
    pub manifest_sha256: Change,
    /// Null if the version before could not be loaded.
    pub imports: Option<Difference>,
    pub permissions: Difference,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PluginChange")]
pub struct Change {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PluginDifference")]
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

impl Changes {
    /// The differences of a stored version and a new one, from `source` and `url`.
    pub(super) fn between(
        plugins: &Plugins,
        before: &PluginRow,
        examined: &Examined,
        source: PluginSource,
        url: Option<&str>,
    ) -> Self {
        let package = &examined.package;
        let old = ManifestFile::read(before.manifest.as_bytes()).ok();
        let version = old.map(|file| file.manifest.version.to_string()).unwrap_or_default();
        let loaded = plugins.get(&before.id);
        let loaded = loaded.filter(|plugin| plugin.component.sha256 == before.module_sha256);
        let requested = texts(examined.requested.iter());
        Self {
            version: Change { from: version, to: package.manifest.manifest.version.to_string() },
            origin: Change { from: origin(before.source, before.url.as_deref()), to: origin(source, url) },
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

    /// Whether the new version comes from another place, which others may control.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.origin.from != self.origin.to
    }
}

/// The origin of files that others could replace there.
fn origin(source: PluginSource, url: Option<&str>) -> String {
    match (source, url) {
        (PluginSource::Url | PluginSource::Environment, Some(url)) => {
            Url::parse(url.trim()).map_or_else(|_| "url".to_owned(), |url| url.origin().ascii_serialization())
        }
        (PluginSource::Url | PluginSource::Environment, None) => "url".to_owned(),
        (PluginSource::Upload, _) => "upload".to_owned(),
        (PluginSource::File, _) => "folder".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_list_what_was_added_and_removed() {
        let difference = Difference::between(&["log", "http"], &["http", "kv"]);
        assert_eq!(difference, Difference { added: vec!["kv".to_owned()], removed: vec!["log".to_owned()] });
    }

    #[test]
    fn the_origin_of_a_url_is_its_server() {
        let at = |url: &str| origin(PluginSource::Url, Some(url));
        assert_eq!(at("https://x.test/a/manifest.json?key=1"), at("https://X.test:443/b"));
        for other in ["https://y.test/a", "https://x.test:444/a", "http://x.test/a"] {
            assert_ne!(at("https://x.test/a"), at(other), "{other}");
        }
        assert_eq!(origin(PluginSource::Environment, Some("https://x.test/")), at("https://x.test/a"));
        assert_eq!(origin(PluginSource::Upload, None), "upload");
        assert_eq!(origin(PluginSource::File, None), "folder");
    }
}
