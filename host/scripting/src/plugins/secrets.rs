//! The secrets that operators set for plugins: stored ones, sealed, and those of the environment. A plugin reads only its
//! own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::manifest::{Manifest, secret_prefix};
use belvedere_base::random::Random;
use belvedere_base::reloadable::Reloadable;
use belvedere_instance::config::Secret;
use belvedere_protocol::crypto::SealingKey;
use belvedere_storage::store::plugin_secrets::{self, NewSecret, SecretRow};
use belvedere_storage::store::{Db, StoreError, plugins};

/// Bytes of a value: enough for a key pair.
pub const MAX_VALUE: usize = 16 << 10;
/// Secrets of one plugin: more than any needs.
pub const MAX_COUNT: usize = 64;
/// Bytes of a name without its prefix.
const MAX_NAME: usize = 128;

/// A secret that every plugin may have, although no manifest lists it: where it reaches its service instead.
const PROXY: &str = "PROXY_URL";

/// The names of the secrets that a plugin may read.
pub(super) fn names(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.secret_names().chain([PROXY])
}

/// The mask of a value that is not shown.
const MASK: &str = "********";
/// Characters of a long value that are shown after the mask.
const SHOWN: usize = 4;

/// The secrets of all plugins. Cheap to clone.
#[derive(Clone)]
pub struct PluginSecrets(Arc<Inner>);

struct Inner {
    db: Db,
    sealing: SealingKey,
    /// By the whole name of the variable.
    environment: BTreeMap<String, Secret<String>>,
    /// The prefixes of the variables of plugins that the configuration names, installed or not.
    configured: Vec<String>,
    stored: Reloadable<Stored>,
}

#[derive(Default)]
struct Stored {
    /// By plugin and name.
    values: BTreeMap<(String, String), Secret<String>>,
    /// The prefixes of the installed plugins' variables.
    prefixes: Vec<String>,
    /// The names that each installed plugin's manifest lists.
    declared: BTreeMap<String, BTreeSet<String>>,
}

/// A set of secrets that can't be stored. The text is for the operator.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidSecrets(String);

impl PluginSecrets {
    /// `configured` has the ids of the plugins that the configuration names.
    pub fn new(
        db: Db,
        sealing: SealingKey,
        environment: BTreeMap<String, Secret<String>>,
        configured: &BTreeSet<String>,
    ) -> Self {
        let configured = configured.iter().map(|id| secret_prefix(id)).collect();
        Self(Arc::new(Inner { db, sealing, environment, configured, stored: Reloadable::default() }))
    }

    /// Loads the stored secrets.
    ///
    /// # Errors
    /// When the store can't be read; the secrets stay as they were.
    pub async fn reload(&self) -> Result<(), StoreError> {
        let Inner { db, sealing, stored, .. } = &*self.0;
        stored
            .reload(async |_| {
                let (rows, installed) = (plugin_secrets::all(db).await?, plugins::list(db).await?);
                let opened = rows.into_iter().filter_map(|row| {
                    let value = open(sealing, &row)?;
                    Some(((row.plugin_id, row.key), value))
                });
                let prefixes = installed.iter().map(|row| secret_prefix(&row.id)).collect();
                let declared = installed.iter().filter_map(|row| {
                    let manifest = Manifest::parse(row.manifest.as_bytes()).ok()?;
                    let names = manifest.secret_names().map(str::to_owned).collect();
                    Some((row.id.clone(), names))
                });
                Ok(Stored { values: opened.collect(), prefixes, declared: declared.collect() })
            })
            .await
    }

    /// A plugin's secret by its name without the prefix, if its manifest lists it: the stored value, else that of the
    /// environment. A variable belongs to the plugin with the longest prefix: `PLUGIN_A_B_KEY` to `a-b` if that is installed
    /// or configured, else to `a`.
    pub fn get(&self, plugin: &str, name: &str) -> Option<Secret<String>> {
        let stored = self.0.stored.load();
        if name != PROXY && !stored.declared.get(plugin).is_some_and(|names| names.contains(name)) {
            return None;
        }
        if let Some(value) = stored.values.get(&(plugin.to_owned(), name.to_owned())) {
            return Some(value.clone());
        }
        let prefix = secret_prefix(plugin);
        let variable = format!("{prefix}{name}");
        let mut prefixes = stored.prefixes.iter().chain(&self.0.configured);
        let is_anothers = prefixes.any(|other| other.len() > prefix.len() && variable.starts_with(other));
        if is_anothers { None } else { self.0.environment.get(&variable).cloned() }
    }

    /// Whether every secret that the plugin requires has a value.
    pub fn are_complete(&self, manifest: &Manifest) -> bool {
        manifest.secret_names().all(|name| self.get(&manifest.id, name).is_some())
    }

    /// The stored secrets of a plugin by their whole names, masked.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn masked(&self, plugin: &str) -> Result<BTreeMap<String, String>, StoreError> {
        let rows = plugin_secrets::list(&self.0.db, plugin).await?;
        let prefix = secret_prefix(plugin);
        let masked = |row: SecretRow| {
            let value = open(&self.0.sealing, &row);
            let shown = value.map_or_else(|| MASK.to_owned(), |value| mask(value.reveal()));
            (format!("{prefix}{}", row.key), shown)
        };
        Ok(rows.into_iter().map(masked).collect())
    }

    /// Checks and seals a set of secrets, by their whole names. A value that begins with the mask keeps the stored one; an
    /// empty one is left out.
    ///
    /// # Errors
    /// For a name of another plugin or a value that is too long.
    pub fn seal(
        &self,
        random: &Random,
        plugin: &str,
        secrets: &BTreeMap<String, Secret<String>>,
    ) -> Result<Vec<NewSecret>, InvalidSecrets> {
        let prefix = secret_prefix(plugin);
        if secrets.len() > MAX_COUNT {
            return Err(InvalidSecrets(format!("a plugin has at most {MAX_COUNT} secrets")));
        }
        let mut sealed = Vec::new();
        for (variable, value) in secrets {
            let name = variable.strip_prefix(&prefix).unwrap_or_default();
            let is_name = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            if name.is_empty() || name.len() > MAX_NAME || !is_name {
                let text = format!("{variable:?} is not {prefix} and a name of A-Z, 0-9 and _");
                return Err(InvalidSecrets(text));
            }
            let (key, value) = (name.to_owned(), value.reveal());
            if value.len() > MAX_VALUE {
                return Err(InvalidSecrets(format!("{variable} is longer than {MAX_VALUE} bytes")));
            }
            if value.starts_with(MASK) {
                sealed.push(NewSecret::Keep(key));
            } else if !value.is_empty() {
                let purpose = purpose(plugin, &key);
                let sealed_value = self.0.sealing.seal(random, &purpose, value.as_bytes());
                sealed.push(NewSecret::Set { key, sealed: sealed_value });
            }
        }
        Ok(sealed)
    }
}

impl fmt::Debug for PluginSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginSecrets").finish_non_exhaustive()
    }
}

fn purpose(plugin: &str, key: &str) -> String {
    format!("plugin:{plugin}:{key}")
}

/// `None`, which is logged, when the value was sealed with another key or for another secret.
fn open(sealing: &SealingKey, row: &SecretRow) -> Option<Secret<String>> {
    let value = sealing.open(&purpose(&row.plugin_id, &row.key), &row.sealed).ok();
    let value =
        value.and_then(|bytes| std::str::from_utf8(&bytes).map(|text| Secret::new(text.to_owned())).ok());
    if value.is_none() {
        let (plugin, key) = (&row.plugin_id, &row.key);
        tracing::error!(
            plugin,
            key,
            "a secret of a plugin can't be decrypted: TOKEN_ENCRYPTION_KEY has changed; set the secret again"
        );
    }
    value
}

/// Eight stars, and the end of a value of more than eight characters.
fn mask(value: &str) -> String {
    let count = value.chars().count();
    let end = if count > MASK.len() { count - SHOWN } else { count };
    let mut masked = MASK.to_owned();
    masked.extend(value.chars().skip(end));
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, Secret<String>> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned()))).collect()
    }

    /// With a database without tables: none of the tests reads it.
    async fn secrets(environment: &[(&str, &str)]) -> (PluginSecrets, tempfile::TempDir) {
        let (url, directory) = belvedere_standins::database::sqlite_url();
        let db = Db::open(&url, 1).await.unwrap();
        let configured = ["drive-x".to_owned()].into();
        (PluginSecrets::new(db, SealingKey::new([1; 32]), map(environment), &configured), directory)
    }

    #[test]
    fn a_mask_shows_the_end_of_long_values_only() {
        for (value, shown) in [
            ("a", "********"),
            ("12345678", "********"),
            ("123456789", "********6789"),
            ("äöüäöüäöü", "********üäöü"),
        ] {
            assert_eq!(mask(value), shown);
        }
    }

    #[tokio::test]
    async fn a_plugin_reads_only_its_own_secrets_and_stored_ones_win() {
        let environment = [
            ("PLUGIN_A_KEY", "env"),
            ("PLUGIN_A_B_KEY", "of a-b"),
            ("PLUGIN_C_B_KEY", "of c"),
            ("PLUGIN_A_UNLISTED", "unlisted"),
            ("PLUGIN_A_PROXY_URL", "proxy"),
            ("PLUGIN_DRIVE_X_KEY", "of drive-x"),
        ];
        let (secrets, _directory) = secrets(&environment).await;
        let get = |plugin: &str, name: &str| secrets.get(plugin, name).map(|value| value.reveal().clone());
        secrets.0.stored.store(Stored {
            values: [(("a".to_owned(), "OTHER".to_owned()), Secret::new("stored".to_owned()))].into(),
            prefixes: vec!["PLUGIN_A_".to_owned(), "PLUGIN_A_B_".to_owned(), "PLUGIN_C_".to_owned()],
            declared: ["a", "a-b", "c", "drive"]
                .map(|id| (id.to_owned(), ["KEY", "B_KEY", "OTHER", "X_KEY"].map(str::to_owned).into()))
                .into(),
        });
        assert_eq!(get("a", "UNLISTED"), None, "its manifest does not list it");
        assert_eq!(get("a", "PROXY_URL").as_deref(), Some("proxy"));
        assert_eq!(get("drive", "X_KEY"), None, "drive-x is configured, although it is not installed yet");
        assert_eq!(get("a", "KEY").as_deref(), Some("env"));
        assert_eq!(get("a", "OTHER").as_deref(), Some("stored"));
        assert_eq!(get("a", "B_KEY"), None, "that is the secret of a-b");
        assert_eq!(get("a-b", "KEY").as_deref(), Some("of a-b"));
        assert_eq!(get("c", "B_KEY").as_deref(), Some("of c"), "no plugin c-b is installed");
        assert_eq!(get("b", "KEY"), None);
        assert_eq!(get("a-b", "OTHER"), None);
    }

    #[tokio::test]
    async fn sealed_values_are_bound_to_plugin_and_key() {
        let (secrets, _directory) = secrets(&[]).await;
        let random = Random::seeded(1);
        let sealed = secrets.seal(&random, "a", &map(&[("PLUGIN_A_KEY", "s3cret value")])).unwrap();
        let NewSecret::Set { key, sealed } = &sealed[0] else { panic!("it is new") };
        let row = |plugin: &str, key: &str| SecretRow {
            plugin_id: plugin.to_owned(),
            key: key.to_owned(),
            sealed: sealed.clone(),
        };
        assert_eq!(open(&secrets.0.sealing, &row("a", key)).unwrap().reveal(), "s3cret value");
        assert!(open(&secrets.0.sealing, &row("b", key)).is_none());
        assert!(open(&secrets.0.sealing, &row("a", "OTHER")).is_none());
    }

    #[tokio::test]
    async fn names_of_other_plugins_and_long_values_are_refused() {
        let (secrets, _directory) = secrets(&[]).await;
        let random = Random::seeded(1);
        let long = "x".repeat(MAX_VALUE + 1);
        for (name, value) in [
            ("KEY", "x"),
            ("PLUGIN_B_KEY", "x"),
            ("PLUGIN_A_", "x"),
            ("PLUGIN_A_key", "x"),
            ("PLUGIN_A_K\0Y", "x"),
            ("PLUGIN_A_KEY", &long),
        ] {
            assert!(secrets.seal(&random, "a", &map(&[(name, value)])).is_err(), "{name}");
        }
        let many: Vec<String> = (0..=MAX_COUNT).map(|n| format!("PLUGIN_A_{n}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        assert!(secrets.seal(&random, "a", &map(&many)).is_err());
        let kept = secrets.seal(&random, "a", &map(&[("PLUGIN_A_A", "********cret"), ("PLUGIN_A_B", "")]));
        assert!(matches!(&kept.unwrap()[..], [NewSecret::Keep(key)] if key == "A"));
    }
}
