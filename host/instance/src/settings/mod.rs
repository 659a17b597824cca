//! The instance's settings (service.md, Instance settings): values that admins store override those of the environment.
//!
//! All of them are kept in memory, so that reading one is cheap.

pub mod backfill;
pub mod logo;

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use crate::config::backfill::{CATCH_UP, NUMBERS as BACKFILL};
use crate::config::events::{RETENTION_DAYS, VERBOSE};
use crate::config::{Config, INSPECTOR, NumberSetting, Setting};
use crate::lexicons::forwarding;
use belvedere_base::clock::Timestamp;
use belvedere_base::reloadable::Reloadable;
use belvedere_protocol::atproto::{Nsid, RecordKey};
use belvedere_storage::store::{Db, StoreError, settings};

pub const APP_NAME: &str = "app_name";
pub const CLIENT_URI: &str = "client_uri";
const LOGO_URI: &str = "logo_uri";
pub const TOS_URI: &str = "tos_uri";
pub const POLICY_URI: &str = "policy_uri";
pub const SPACES_ENABLED: &str = "feature.spaces_enabled";
/// The collection and the record key of an account's profile.
const PROFILE_COLLECTION: &str = "profile_collection";
const PROFILE_RKEY: &str = "profile_rkey";
const TELEMETRY: &str = "telemetry";

/// The maximum length of a key: NSID-like names fit.
const MAX_KEY: usize = 128;
/// The maximum size of a value, in bytes: names, URLs and numbers. Files have their own endpoints.
const MAX_VALUE: usize = 4 << 10;

/// Settings that are true or false. Those of features have their own keys.
const FLAGS: [Setting<bool>; 3] = [CATCH_UP, VERBOSE, INSPECTOR];

/// Settings with their own endpoint, which checks them.
const WITH_OWN_ENDPOINT: [(&str, &str); 2] =
    [(logo::KEY, "/admin/settings/logo"), (forwarding::SETTING, "/admin/settings/xrpc-proxy")];

#[derive(Debug, Default)]
pub struct Settings {
    environment: BTreeMap<String, String>,
    stored: Reloadable<Stored>,
}

/// The stored values.
#[derive(Debug, Default)]
struct Stored {
    values: BTreeMap<String, String>,
    /// The time at which the uploaded logo was stored, if there is one. Its bytes stay in the store.
    logo: Option<Timestamp>,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SettingSource")]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Database,
    Env,
}

impl Settings {
    /// The environment's values. Stored values are not loaded before the first [`Self::reload`].
    pub fn new(config: &Config) -> Self {
        let mut environment = config.instance.settings();
        environment.extend(config.backfill.settings());
        if config.events.verbose {
            environment.insert(VERBOSE.key(), "true".to_owned());
        }
        if let Some(days) = config.events.retention_days {
            environment.insert(RETENTION_DAYS.key(), days.to_string());
        }
        Self { environment, ..Self::default() }
    }

    /// Loads the stored values and calls `derive`, which updates what depends on them. Reloads run one after another,
    /// so that an older read never replaces a newer one.
    ///
    /// # Errors
    /// When the store can't be read; the previous values stay.
    pub async fn reload(&self, db: &Db, derive: impl FnOnce(&Self)) -> Result<(), StoreError> {
        let read = async |_: &_| {
            Ok(Stored {
                values: settings::list(db, logo::KEY).await?.into_iter().collect(),
                logo: settings::stored_at(db, logo::KEY).await?,
            })
        };
        self.stored.reload_then(read, || derive(self)).await
    }

    /// The effective value: the stored one, else the environment's.
    pub fn get(&self, key: &str) -> Option<String> {
        let stored = self.stored.load();
        stored.values.get(key).or_else(|| self.environment.get(key)).cloned()
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// A setting that is a number; `None` when it is not set, or is no such number and a warning is logged: the stored
    /// values are checked, but an operator may change the row.
    pub fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        let number = self.get(key)?.trim().parse().ok();
        if number.is_none() {
            tracing::warn!(key, "a setting is not a number, so its default is used");
        }
        number
    }

    /// Whether every record and every run is an event.
    pub fn logs_verbosely(&self) -> bool {
        self.flag(&VERBOSE.key())
    }

    /// Days that events are kept; 0 is for ever.
    pub fn event_retention_days(&self) -> u32 {
        self.number(&RETENTION_DAYS.key()).unwrap_or(RETENTION_DAYS.default)
    }

    /// The collection and the record key of the record that is an account's profile here.
    pub fn profile(&self) -> (Nsid, RecordKey) {
        // The stored values are checked, but an operator may change the rows.
        let collection = self.get(PROFILE_COLLECTION).and_then(|name| Nsid::try_from(name.as_str()).ok());
        let rkey = self.get(PROFILE_RKEY).and_then(|key| RecordKey::try_from(key.as_str()).ok());
        (
            collection.unwrap_or_else(|| Nsid::try_from("app.bsky.actor.profile").expect("an NSID")),
            rkey.unwrap_or_else(|| RecordKey::try_from("self").expect("a record key")),
        )
    }

    /// The URL of the logo: the uploaded one at `origin`, which is one of the instance's own, else the external one.
    pub fn logo_url(&self, origin: &str) -> Option<String> {
        match self.stored.load().logo {
            // The number makes browsers and authorization servers fetch a replaced logo.
            Some(at) => Some(format!("{origin}{}?v={}", logo::PATH, at.0)),
            None => self.get(LOGO_URI),
        }
    }

    /// All effective values except the logo: the stored ones by key, then those that only the environment has.
    pub fn list(&self) -> Vec<(String, String, Source)> {
        let stored = &self.stored.load().values;
        let inherited = self.environment.iter().filter(|(key, _)| !stored.contains_key(*key));
        let inherited = inherited.map(|(key, value)| (key.clone(), value.clone(), Source::Env));
        stored
            .iter()
            .map(|(key, value)| (key.clone(), value.clone(), Source::Database))
            .chain(inherited)
            .collect()
    }
}

/// The reason why a setting can't be stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    #[error("a key is 1 to {MAX_KEY} characters of a-z, 0-9, '.', '_' and '-'")]
    Key,
    #[error("a value is at most {MAX_VALUE} bytes")]
    TooLong,
    #[error("this setting can only be changed at {0}")]
    OwnEndpoint(&'static str),
    #[error("there is no telemetry to set: this server reports to nobody")]
    Telemetry,
    #[error("{key} must be {expected}")]
    Value { key: String, expected: String },
}

/// Checks whether a setting may be stored. Unknown keys may have any value: other software may use them.
///
/// # Errors
/// Names what is wrong with the key or the value.
pub fn check(key: &str, value: &str) -> Result<(), InvalidSetting> {
    if let Some((_, endpoint)) = WITH_OWN_ENDPOINT.iter().find(|(name, _)| *name == key) {
        return Err(InvalidSetting::OwnEndpoint(endpoint));
    }
    if key.split('.').next() == Some(TELEMETRY) {
        return Err(InvalidSetting::Telemetry);
    }
    let is_key = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(is_key) {
        return Err(InvalidSetting::Key);
    }
    if value.len() > MAX_VALUE {
        return Err(InvalidSetting::TooLong);
    }
    let (is_valid, expected) = match key {
        CLIENT_URI | LOGO_URI | TOS_URI | POLICY_URI => {
            let is_web =
                Url::parse(value).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            (is_web, "an http or https address".to_owned())
        }
        key if key.starts_with("feature.") || FLAGS.iter().any(|flag| flag.key() == key) => {
            (matches!(value, "true" | "false"), "true or false".to_owned())
        }
        key if key == RETENTION_DAYS.key() => {
            let high = RETENTION_DAYS.range.end();
            let expected = format!("a whole number of days, 0 (keeps events for ever) to {high}");
            (is_within(&RETENTION_DAYS, value), expected)
        }
        PROFILE_COLLECTION => (Nsid::try_from(value).is_ok(), "the NSID of a collection".to_owned()),
        PROFILE_RKEY => (RecordKey::try_from(value).is_ok(), "a record key".to_owned()),
        key if key.starts_with("rate_limit.") => {
            (value.parse::<u32>().is_ok(), "a whole number, 0 or more".to_owned())
        }
        key => match BACKFILL.iter().find(|setting| setting.key() == key) {
            Some(setting) => {
                let (low, high) = (setting.range.start(), setting.range.end());
                (is_within(setting, value), format!("a whole number from {low} to {high}"))
            }
            None => (true, String::new()),
        },
    };
    if is_valid { Ok(()) } else { Err(InvalidSetting::Value { key: key.to_owned(), expected }) }
}

fn is_within(setting: &NumberSetting<u32>, value: &str) -> bool {
    value.parse().is_ok_and(|number: u32| setting.range.contains(&number))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn stored_values_override_the_environment() {
        let settings = Settings {
            environment: BTreeMap::from([
                ("app_name".to_owned(), "env".to_owned()),
                (TOS_URI.to_owned(), "https://env".to_owned()),
            ]),
            stored: stored(&[("app_name", "stored")], None),
        };
        assert_eq!(settings.get("app_name").as_deref(), Some("stored"));
        assert_eq!(settings.get(TOS_URI).as_deref(), Some("https://env"));
        assert_eq!(settings.get("other"), None);
        let list = settings.list();
        assert_eq!(list[0], ("app_name".into(), "stored".into(), Source::Database));
        assert_eq!(list[1..], [("tos_uri".into(), "https://env".into(), Source::Env)]);
    }

    fn stored(values: &[(&str, &str)], logo: Option<Timestamp>) -> Reloadable<Stored> {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Reloadable::new(Stored { values, logo })
    }

    #[test]
    fn the_profile_is_a_record_that_can_be_chosen() {
        let of = |values| {
            let settings = Settings { environment: BTreeMap::new(), stored: stored(values, None) };
            let (collection, rkey) = settings.profile();
            format!("{collection}/{rkey}")
        };
        assert_eq!(of(&[]), "app.bsky.actor.profile/self");
        assert_eq!(of(&[(PROFILE_COLLECTION, "com.example.profile")]), "com.example.profile/self");
        let both = [(PROFILE_COLLECTION, "com.example.card"), (PROFILE_RKEY, "me")];
        assert_eq!(of(&both), "com.example.card/me");
        let broken = [(PROFILE_COLLECTION, "nonsense"), (PROFILE_RKEY, "a/b")];
        assert_eq!(of(&broken), "app.bsky.actor.profile/self");
    }

    #[test]
    fn events_are_kept_as_long_as_the_nearest_valid_setting_says() {
        for (environment, values, days) in [
            (None, &[][..], RETENTION_DAYS.default),
            (Some("7"), &[], 7),
            (Some("7"), &[("event_log_retention_days", "0")], 0),
            (None, &[("event_log_retention_days", "soon")], RETENTION_DAYS.default),
        ] {
            let environment = environment.map(|days| (RETENTION_DAYS.key(), days.to_owned()));
            let environment = environment.into_iter().collect();
            let settings = Settings { environment, stored: stored(values, None) };
            assert_eq!(settings.event_retention_days(), days, "{settings:?}");
        }
    }

    #[test]
    fn an_uploaded_logo_is_shown_instead_of_an_external_one() {
        let external = [(LOGO_URI, "https://cdn.example/logo.png")];
        let of = |values, logo| {
            let settings = Settings { environment: BTreeMap::new(), stored: stored(values, logo) };
            settings.logo_url("https://own.example")
        };
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&external, None).as_deref(), Some("https://cdn.example/logo.png"));
        let uploaded = "https://own.example/settings/logo?v=7";
        assert_eq!(of(&external, Some(Timestamp(7))).as_deref(), Some(uploaded));
    }

    #[test]
    fn values_of_known_settings_are_checked() {
        for (key, value) in [
            ("app_name", "Anything at all"),
            ("tos_uri", "https://example.com/tos"),
            ("verbose_event_logging", "false"),
            ("event_log_retention_days", "0"),
            ("feature.spaces_enabled", "true"),
            ("telemetry_of_others", "x"),
            ("rate_limit.default_query_cost", "0"),
            ("backfill_retention_days", "0"),
            ("backfill_concurrent_pds", "64"),
            ("backfill_catch_up", "false"),
            ("profile_collection", "com.example.profile"),
            ("profile_rkey", "self"),
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
            ("event_log_retention_days", "-1", "a whole number of days"),
            ("event_log_retention_days", "36501", "0 (keeps events for ever) to 36500"),
            ("feature.spaces_enabled", "1", "true or false"),
            ("telemetry", "on", "reports to nobody"),
            ("telemetry.mode", "auto", "reports to nobody"),
            ("space_inspector_enabled", "on", "true or false"),
            ("backfill_concurrent_pds", "65", "a whole number from 1 to 64"),
            ("backfill_catch_up", "off", "backfill_catch_up must be true or false"),
            ("backfill_max_attempts", "0", "a whole number from 1 to 10"),
            ("backfill_retention_days", "a week", "a whole number from 0 to 36500"),
            ("xrpc_proxy_config", "{}", "changed at /admin/settings/xrpc-proxy"),
            ("profile_collection", "profile", "profile_collection must be the NSID of a collection"),
            ("profile_rkey", "a/b", "profile_rkey must be a record key"),
            ("logo", "x", "changed at /admin/settings/logo"),
        ] {
            let refused = check(key, value).unwrap_err().to_string();
            assert!(refused.contains(message), "{key}: {refused}");
        }
        assert_eq!(check("app_name", &"x".repeat(MAX_VALUE + 1)), Err(InvalidSetting::TooLong));
    }

    /// The numbers and flags that the dashboard shows, as it reads them.
    #[test]
    fn the_dashboard_has_the_rows_of_the_settings() {
        let numbers = BACKFILL.into_iter().chain([RETENTION_DAYS]).map(|setting| {
            let (key, standard, range) = (setting.key(), setting.default, setting.range);
            let (low, high) = range.into_inner();
            format!("  {key}: {{ kind: 'number', standard: '{standard}', range: [{low}, {high}] }},\n")
        });
        let flags = FLAGS.map(|setting| {
            format!("  {}: {{ kind: 'flag', standard: '{}' }},\n", setting.key(), setting.default)
        });
        let rows: String = numbers.chain(flags).collect();
        let current = format!(
            "// Made from the settings of the server (host/instance/src/config/); a test says how.\n\
             export const rows = {{\n{rows}}} as const\n"
        );
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard/src/pages/settings/rows.ts");
        if std::fs::read_to_string(&file).unwrap_or_default() != current {
            let new = std::env::temp_dir().join("rows.ts");
            std::fs::write(&new, current).unwrap();
            panic!("dashboard/src/pages/settings/rows.ts is not current: cp {} over it", new.display());
        }
    }
}
