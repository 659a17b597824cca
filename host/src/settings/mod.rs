//! The instance's settings (service.md, Instance settings): values that admins store override those of the environment.
//!
//! All of them are kept in memory, so that reading one is cheap.

pub mod logo;

use std::collections::BTreeMap;

use serde::Serialize;
use url::Url;

use crate::config::Config;
use crate::lexicons::forwarding;
use crate::reloadable::Reloadable;
use crate::store::{Db, StoreError, settings};

pub const TOS_URI: &str = "tos_uri";
pub const POLICY_URI: &str = "policy_uri";
pub const VERBOSE_EVENT_LOGGING: &str = "verbose_event_logging";

/// The maximum length of a key: NSID-like names fit.
const MAX_KEY: usize = 128;
/// The maximum size of a value, in bytes: names, URLs and numbers. Files have their own endpoints.
const MAX_VALUE: usize = 4 << 10;

/// Settings with their own endpoint, which checks them.
const WITH_OWN_ENDPOINT: [(&str, &str); 2] =
    [(logo::KEY, "/admin/settings/logo"), (forwarding::SETTING, "/admin/settings/xrpc-proxy")];

#[derive(Debug, Default)]
pub struct Settings {
    environment: BTreeMap<&'static str, String>,
    stored: Reloadable<BTreeMap<String, String>>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Database,
    Env,
}

impl Settings {
    /// The environment's values. Stored values are not loaded before the first [`Self::reload`].
    pub fn new(config: &Config) -> Self {
        let mut environment = config.instance.settings();
        if config.events.verbose {
            environment.insert(VERBOSE_EVENT_LOGGING, "true".to_owned());
        }
        Self { environment, ..Self::default() }
    }

    /// Loads the stored values and calls `derive`, which updates what depends on them. Reloads run one after another,
    /// so that an older read never replaces a newer one.
    ///
    /// # Errors
    /// When the store can't be read; the previous values stay.
    pub async fn reload(&self, db: &Db, derive: impl FnOnce(&Self)) -> Result<(), StoreError> {
        let read = async |_: &_| Ok(settings::list(db, logo::KEY).await?.into_iter().collect());
        self.stored.reload_then(read, || derive(self)).await
    }

    /// The effective value: the stored one, else the environment's.
    pub fn get(&self, key: &str) -> Option<String> {
        let stored = self.stored.load();
        stored.get(key).or_else(|| self.environment.get(key)).cloned()
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// All effective values except the logo: the stored ones by key, then those that only the environment has.
    pub fn list(&self) -> Vec<(String, String, Source)> {
        let stored = self.stored.load();
        let inherited = self.environment.iter().filter(|(key, _)| !stored.contains_key(**key));
        let inherited = inherited.map(|(key, value)| ((*key).to_owned(), value.clone(), Source::Env));
        stored
            .iter()
            .map(|(key, value)| (key.clone(), value.clone(), Source::Database))
            .chain(inherited)
            .collect()
    }
}

/// Why a setting can't be stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    #[error("a key is 1 to {MAX_KEY} characters of a-z, 0-9, '.', '_' and '-'")]
    Key,
    #[error("a value is at most {MAX_VALUE} bytes")]
    TooLong,
    #[error("this setting can only be changed at {0}")]
    OwnEndpoint(&'static str),
    #[error("{key} must be {expected}")]
    Value { key: String, expected: &'static str },
}

/// Checks whether a setting may be stored. Unknown keys may have any value: other software may use them.
///
/// # Errors
/// Names what is wrong with the key or the value.
pub fn check(key: &str, value: &str) -> Result<(), InvalidSetting> {
    if let Some((_, endpoint)) = WITH_OWN_ENDPOINT.iter().find(|(name, _)| *name == key) {
        return Err(InvalidSetting::OwnEndpoint(endpoint));
    }
    let is_key = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(is_key) {
        return Err(InvalidSetting::Key);
    }
    if value.len() > MAX_VALUE {
        return Err(InvalidSetting::TooLong);
    }
    let (is_valid, expected) = match key {
        "client_uri" | "logo_uri" | TOS_URI | POLICY_URI => {
            let is_web =
                Url::parse(value).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            (is_web, "an http or https address")
        }
        VERBOSE_EVENT_LOGGING => (matches!(value, "true" | "false"), "true or false"),
        key if key.starts_with("feature.") => (matches!(value, "true" | "false"), "true or false"),
        key if key.starts_with("rate_limit.") => (value.parse::<u32>().is_ok(), "a whole number, 0 or more"),
        _ => (true, ""),
    };
    if is_valid { Ok(()) } else { Err(InvalidSetting::Value { key: key.to_owned(), expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_override_the_environment() {
        let settings = Settings {
            environment: BTreeMap::from([
                ("app_name", "env".to_owned()),
                (TOS_URI, "https://env".to_owned()),
            ]),
            stored: Reloadable::new(BTreeMap::from([("app_name".to_owned(), "stored".to_owned())])),
        };
        assert_eq!(settings.get("app_name").as_deref(), Some("stored"));
        assert_eq!(settings.get(TOS_URI).as_deref(), Some("https://env"));
        assert_eq!(settings.get("other"), None);
        let list = settings.list();
        assert_eq!(list[0], ("app_name".into(), "stored".into(), Source::Database));
        assert_eq!(list[1..], [("tos_uri".into(), "https://env".into(), Source::Env)]);
    }

    #[test]
    fn values_of_known_settings_are_checked() {
        for (key, value) in [
            ("app_name", "Anything at all"),
            ("tos_uri", "https://example.com/tos"),
            ("verbose_event_logging", "false"),
            ("rate_limit.default_query_cost", "0"),
            ("some.unknown-key_1", ""),
        ] {
            assert_eq!(check(key, value), Ok(()), "{key}");
        }
        for (key, value, message) in [
            ("", "x", "a key is 1 to 128"),
            ("Key", "x", "a key is 1 to 128"),
            ("a/b", "x", "a key is 1 to 128"),
            ("tos_uri", "javascript:alert(1)", "tos_uri must be an http or https address"),
            ("policy_uri", "example.com", "an http or https address"),
            ("verbose_event_logging", "yes", "true or false"),
            ("rate_limit.default_query_cost", "-1", "a whole number"),
            ("xrpc_proxy_config", "{}", "changed at /admin/settings/xrpc-proxy"),
            ("logo", "x", "changed at /admin/settings/logo"),
        ] {
            let refused = check(key, value).unwrap_err().to_string();
            assert!(refused.contains(message), "{key}: {refused}");
        }
        assert_eq!(check("app_name", &"x".repeat(MAX_VALUE + 1)), Err(InvalidSetting::TooLong));
    }
}
