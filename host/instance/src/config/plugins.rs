//! Settings of plugins, and the secrets that the environment has for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use url::Url;

use super::{NumberSetting, Problems, Secret, parse};

/// The beginning of all names below, and of the names of plugins' secrets.
const PREFIX: &str = "PLUGIN_";

/// Names with this prefix that are settings: no plugin's secret.
const SETTINGS: [&str; 5] =
    ["PLUGIN_DIR", "PLUGIN_URLS", "PLUGIN_GRANT_UNRESTRICTED", "PLUGIN_CATALOGUE_URL", "PLUGIN_POOL_SIZE"];

/// The default has room for four plugins with all their calls, most of which wait for other servers. A larger pool than
/// the maximum could use up the machine's memory.
pub const POOL_SIZE: NumberSetting<u32> = NumberSetting {
    variable: "PLUGIN_POOL_SIZE",
    default: 16,
    range: 1..=1024,
    about: "Calls of plugins that may run at the same time, up to 64 MiB of memory each",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Plugins")]
pub struct PluginsArgs {
    /// Folder with plugins, each in a folder of its own with a manifest.json; loaded at the start
    /// [default: DATA_DIR/plugins]
    #[arg(id = "plugin_dir", long = "plugin-dir", env = "PLUGIN_DIR", global = true, value_name = "PATH")]
    pub dir: Option<String>,
    /// Plugins to install at the start, comma-separated: ID|URL, ID|URL|sha256:MODULE or
    /// ID|URL|sha256:MODULE+MANIFEST with the hashes of both files; only the last form grants more than low risk
    #[arg(long = "plugin-urls", env = "PLUGIN_URLS", global = true, value_name = "LIST")]
    pub urls: Option<String>,
    /// Ids, comma-separated, of plugins of PLUGIN_DIR and PLUGIN_URLS that may call every public host if they ask for it
    #[arg(
        long = "plugin-grant-unrestricted",
        env = "PLUGIN_GRANT_UNRESTRICTED",
        global = true,
        value_name = "IDS"
    )]
    pub unrestricted: Option<String>,
    /// Releases of a repository of plugins, as the releases API of a code hosting service lists them; there is no
    /// official one yet
    #[arg(long = "plugin-catalogue-url", env = "PLUGIN_CATALOGUE_URL", global = true, value_name = "URL")]
    pub catalogue_url: Option<String>,
    #[arg(id = "plugin_pool_size", long = "plugin-pool-size", env = POOL_SIZE.variable, help = POOL_SIZE.help(),
        global = true, value_name = "COUNT")]
    pub pool_size: Option<String>,
}

#[derive(Clone)]
pub struct Plugins {
    pub dir: PathBuf,
    pub urls: Vec<PluginUrl>,
    /// Ids of configured plugins that may have the unrestricted network.
    pub unrestricted: BTreeSet<String>,
    pub catalogue_url: Option<Url>,
    pub pool_size: u32,
    /// Secrets by the whole name of their variable, `PLUGIN_<ID>_<KEY>`.
    pub secrets: BTreeMap<String, Secret<String>>,
}

/// An entry of `PLUGIN_URLS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUrl {
    /// Must be that of the manifest.
    pub id: String,
    pub url: String,
    /// The hash of the module, in lower-case hex, as the other one.
    pub sha256: Option<String>,
    /// The hash of the manifest.
    pub manifest_sha256: Option<String>,
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins").field("dir", &self.dir).field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl PluginsArgs {
    pub(super) fn check(self, data_dir: &Path, problems: &mut Problems) -> Plugins {
        let urls: Vec<PluginUrl> = parse::list(self.urls)
            .iter()
            .filter_map(|entry| plugin_url(entry).map_err(|text| problems.add("PLUGIN_URLS", text)).ok())
            .collect();
        let ids: BTreeSet<&str> = urls.iter().map(|entry| entry.id.as_str()).collect();
        if ids.len() < urls.len() {
            problems.add("PLUGIN_URLS", "an id is listed twice".to_owned());
        }
        let catalogue_url = parse::text(self.catalogue_url)
            .and_then(|url| parse::url("PLUGIN_CATALOGUE_URL", &url, &["https", "http"], problems));
        Plugins {
            dir: parse::text(self.dir).map_or_else(|| data_dir.join("plugins"), PathBuf::from),
            urls,
            unrestricted: parse::list(self.unrestricted).into_iter().collect(),
            catalogue_url,
            pool_size: POOL_SIZE.read(self.pool_size, problems),
            secrets: secrets(environment()),
        }
    }
}

fn plugin_url(entry: &str) -> Result<PluginUrl, String> {
    let form = || format!("{entry:?} is not ID|URL, ID|URL|sha256:MODULE or ID|URL|sha256:MODULE+MANIFEST");
    let mut parts = entry.split('|').map(str::trim);
    let id = parts.next().filter(|id| !id.is_empty()).ok_or_else(form)?;
    let url = parts.next().ok_or_else(form)?;
    let pin = parts.next();
    if parts.next().is_some() || !Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "https" | "http")) {
        return Err(form());
    }
    let (sha256, manifest_sha256) = match pin {
        None => (None, None),
        Some(pin) => {
            let hashes = pin.strip_prefix("sha256:").ok_or_else(form)?;
            let (module, manifest) = match hashes.split_once('+') {
                Some((module, manifest)) => (module, Some(manifest)),
                None => (hashes, None),
            };
            let manifest = manifest.map(|manifest| hash(manifest).ok_or_else(form)).transpose()?;
            (Some(hash(module).ok_or_else(form)?), manifest)
        }
    };
    Ok(PluginUrl { id: id.to_owned(), url: url.to_owned(), sha256, manifest_sha256 })
}

/// A SHA-256 in lower-case hex.
fn hash(hex: &str) -> Option<String> {
    let is_hash = hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| hex.to_ascii_lowercase())
}

/// The variables that may be secrets of plugins. Values that are not text can't be one.
#[expect(clippy::disallowed_methods, reason = "this room reads the environment")]
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect()
}

/// An empty value counts as unset.
fn secrets(variables: Vec<(String, String)>) -> BTreeMap<String, Secret<String>> {
    variables
        .into_iter()
        .filter(|(name, value)| !SETTINGS.contains(&name.as_str()) && !value.trim().is_empty())
        .map(|(name, value)| (name, Secret::new(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(urls: &str) -> (Plugins, String) {
        let mut problems = Problems::default();
        let args = PluginsArgs { urls: Some(urls.to_owned()), ..PluginsArgs::default() };
        let plugins = args.check(Path::new("data"), &mut problems);
        (plugins, problems.to_string())
    }

    #[test]
    fn lists_of_urls_are_read() {
        let (pin, other) = ("AB".repeat(32), "0c".repeat(32));
        let (plugins, _) =
            check(&format!("steam|https://x.test/steam/, xbox | https://x.test/x.wasm|sha256:{pin}+{other}"));
        let expected = [
            PluginUrl {
                id: "steam".to_owned(),
                url: "https://x.test/steam/".to_owned(),
                sha256: None,
                manifest_sha256: None,
            },
            PluginUrl {
                id: "xbox".to_owned(),
                url: "https://x.test/x.wasm".to_owned(),
                sha256: Some("ab".repeat(32)),
                manifest_sha256: Some(other.clone()),
            },
        ];
        assert_eq!(plugins.urls, expected);
        let (module_only, _) = check(&format!("steam|https://x.test|sha256:{pin}"));
        assert_eq!(module_only.urls[0].manifest_sha256, None);
        for bad in [format!("sha256:{pin}+"), format!("sha256:{pin}+00"), format!("sha256:+{other}")] {
            assert!(check(&format!("a|https://x.test|{bad}")).1.contains("PLUGIN_URLS"), "{bad}");
        }
        assert_eq!(plugins.dir, Path::new("data/plugins"));
        for bad in [
            "steam",
            "|https://x.test",
            "a|ftp://x.test",
            "a|x",
            "a|https://x.test|md5:00",
            "a|https://x.test|sha256:00",
            "a|https://x.test|sha256:zz",
            "a|https://x.test|sha256:00|more",
            "a|https://x.test,a|https://y.test",
        ] {
            assert!(check(bad).1.contains("PLUGIN_URLS"), "{bad}");
        }
    }

    #[test]
    fn settings_are_no_secrets_and_empty_values_count_as_unset() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let found = secrets(vec![
            named("PLUGIN_DIR", "/x"),
            named("PLUGIN_STEAM_API_KEY", "s3cret"),
            named("PLUGIN_XBOX_CLIENT_ID", " "),
        ]);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["PLUGIN_STEAM_API_KEY"]);
        assert!(!format!("{:?}", check("").0).contains("s3cret"));
    }
}
