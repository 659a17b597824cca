//! Reads what a plugin says of itself from its manifest.

use serde::Deserialize;
use serde_json::Value;

/// The part of `manifest.json` that `describe` repeats.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub id: String,
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub auth_type: AuthType,
    #[serde(default)]
    pub required_secrets: Vec<Secret>,
    pub config_schema: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    #[default]
    Oauth2,
    Openid,
    ApiKey,
    None,
}

#[derive(Debug, Deserialize)]
pub struct Secret {
    pub key: String,
    pub name: String,
    pub description: Option<String>,
}

impl Manifest {
    /// # Panics
    /// When the manifest compiled into the plugin is invalid: such a plugin can't be installed.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("manifest.json is valid")
    }

    /// The name of a secret without the prefix `PLUGIN_<ID>_`.
    pub fn short_name<'key>(&self, key: &'key str) -> &'key str {
        key.get("PLUGIN_".len() + self.id.len() + "_".len()..).unwrap_or(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_short_names() {
        let manifest = Manifest::parse(
            r#"{"id": "my-game", "name": "My game", "version": "1.0.0", "auth_type": "api_key",
                "required_secrets": [{"key": "PLUGIN_MY_GAME_API_KEY", "name": "API key"}]}"#,
        );
        assert_eq!(manifest.auth_type, AuthType::ApiKey);
        assert_eq!(manifest.short_name(&manifest.required_secrets[0].key), "API_KEY");
    }
}
