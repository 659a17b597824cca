//! The settings of a space in `config`, which only its host follows (spaces.md §4).

use serde_json::{Map, Value};

use crate::atproto::Nsid;

const MEMBERSHIP_PUBLIC: &str = "membership_public";
const RECORDS_PUBLIC: &str = "records_public";
const ALLOWED_COLLECTIONS: &str = "allowedCollections";

/// Bytes of a config as JSON. Every response about the space contains it.
pub const MAX_CONFIG_BYTES: usize = 16 << 10;

/// The settings of a space. Settings that are not known here are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpaceConfig {
    /// Whether everyone may see the space, its members and its writers.
    pub membership_is_public: bool,
    /// `None` for those that the lexicon of the type declares.
    allowed_collections: Option<Vec<Nsid>>,
    json: Map<String, Value>,
}

/// Error for a config that this server can't follow.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidConfig {
    #[error("config is longer than {MAX_CONFIG_BYTES} bytes")]
    TooLong,
    #[error("{MEMBERSHIP_PUBLIC} must be true or false")]
    MembershipPublic,
    #[error("{RECORDS_PUBLIC} is not supported: set readPolicy to the public policy instead")]
    RecordsPublic,
    #[error("{ALLOWED_COLLECTIONS} must be a list of NSIDs")]
    AllowedCollections,
}

impl SpaceConfig {
    /// # Errors
    /// When a known setting has another type, or is one that this server does not follow.
    pub fn parse(json: Map<String, Value>) -> Result<Self, InvalidConfig> {
        if Value::Object(json.clone()).to_string().len() > MAX_CONFIG_BYTES {
            return Err(InvalidConfig::TooLong);
        }
        let membership_is_public = match json.get(MEMBERSHIP_PUBLIC) {
            None => false,
            Some(value) => value.as_bool().ok_or(InvalidConfig::MembershipPublic)?,
        };
        if json.get(RECORDS_PUBLIC).is_some_and(|value| *value != Value::Bool(false)) {
            return Err(InvalidConfig::RecordsPublic);
        }
        let allowed_collections = match json.get(ALLOWED_COLLECTIONS) {
            None => None,
            Some(names) => Some(nsids(names).ok_or(InvalidConfig::AllowedCollections)?),
        };
        Ok(Self { membership_is_public, allowed_collections, json })
    }

    /// The config as it was set.
    pub fn as_json(&self) -> &Map<String, Value> {
        &self.json
    }

    /// Whether records of a collection may be written. `declared`: the collections that the lexicon of the type declares;
    /// `None` if there is no lexicon, so that all are allowed.
    pub fn allows(&self, collection: &Nsid, declared: Option<&[Nsid]>) -> bool {
        let allowed = self.allowed_collections.as_deref().or(declared);
        allowed.is_none_or(|allowed| allowed.contains(collection))
    }
}

/// The collections that the lexicon of a space's type declares; `None` for another lexicon. A name that is no NSID
/// declares nothing.
pub fn declared_collections(lexicon: &Value) -> Option<Vec<Nsid>> {
    let main = lexicon.pointer("/defs/main").filter(|main| main["type"] == "space")?;
    let names = main["collections"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(names.iter().filter_map(|name| Nsid::try_from(name.as_str()?).ok()).collect())
}

fn nsids(names: &Value) -> Option<Vec<Nsid>> {
    names.as_array()?.iter().map(|name| Nsid::try_from(name.as_str()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(json: Value) -> Result<SpaceConfig, InvalidConfig> {
        let Value::Object(json) = json else { panic!("{json} is no object") };
        SpaceConfig::parse(json)
    }

    #[test]
    fn settings_are_read_and_others_are_kept() {
        let json = json!({ "membership_public": true, "records_public": false, "theme": { "dark": true } });
        let config = parse(json.clone()).unwrap();
        assert!(config.membership_is_public);
        assert_eq!(Value::Object(config.as_json().clone()), json);
        assert_eq!(parse(json!({})), Ok(SpaceConfig::default()));
        for (wrong, error) in [
            (json!({ "membership_public": "yes" }), InvalidConfig::MembershipPublic),
            (json!({ "records_public": true }), InvalidConfig::RecordsPublic),
            (json!({ "records_public": "true" }), InvalidConfig::RecordsPublic),
            (json!({ "allowedCollections": "a.b.c" }), InvalidConfig::AllowedCollections),
            (json!({ "allowedCollections": ["note"] }), InvalidConfig::AllowedCollections),
            (json!({ "x": "x".repeat(MAX_CONFIG_BYTES) }), InvalidConfig::TooLong),
        ] {
            assert_eq!(parse(wrong), Err(error));
        }
    }

    #[test]
    fn collections_are_those_of_the_config_or_of_the_lexicon() {
        let nsid = |name: &str| Nsid::try_from(name).unwrap();
        let lexicon = json!({ "defs": { "main": { "type": "space", "collections": ["a.b.c", "no NSID"] } } });
        let declared = declared_collections(&lexicon);
        assert_eq!(declared, Some(vec![nsid("a.b.c")]));
        assert_eq!(declared_collections(&json!({ "defs": { "main": { "type": "record" } } })), None);
        let (open, limited) =
            (SpaceConfig::default(), parse(json!({ "allowedCollections": ["a.b.d"] })).unwrap());
        for (config, declared, name, is_allowed) in [
            (&open, None, "a.b.e", true),
            (&open, declared.as_deref(), "a.b.c", true),
            (&open, declared.as_deref(), "a.b.d", false),
            (&limited, declared.as_deref(), "a.b.c", false),
            (&limited, declared.as_deref(), "a.b.d", true),
            (&limited, None, "a.b.e", false),
        ] {
            assert_eq!(config.allows(&nsid(name), declared), is_allowed, "{name} {declared:?}");
        }
    }
}
