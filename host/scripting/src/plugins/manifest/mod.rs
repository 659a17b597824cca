//! A plugin's manifest: what is shown to people, and what the plugin asks for.

mod permission;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use permission::{Grants, HostPattern, InvalidPermission, Permission, Risk};

use belvedere_protocol::atproto::Nsid;

/// The version of the contract in `wit/plugin` that this server implements.
const API_VERSION: u32 = 1;

/// Longest manifest in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// Most entries of each list.
const MAX_ENTRIES: usize = 64;

/// Longest id: it is part of URLs and of names of environment variables.
const MAX_ID: usize = 64;

/// Paths of the admin API that an id would hide.
const RESERVED_IDS: [&str; 2] = ["official", "preview"];

/// Longest text that is shown to people, in bytes.
const MAX_TEXT: usize = 2_000;

/// `manifest.json` (plugins.md §1), checked.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub id: String,
    pub name: String,
    pub version: semver::Version,
    pub description: Option<String>,
    pub icon_url: Option<String>,
    pub auth_type: AuthType,
    /// JSON Schema of what the user types, as text.
    pub config_schema: Option<Box<RawValue>>,
    pub required_secrets: Vec<RequiredSecret>,
    /// Relative to the manifest, without `..`.
    pub wasm_file: String,
    /// The permissions that the plugin asks for by name. The imports of its module add to it.
    pub permissions: Vec<Permission>,
}

/// The way in which a user links an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    #[default]
    Oauth2,
    Openid,
    ApiKey,
    /// No accounts: a library.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequiredSecret {
    /// The whole name: `PLUGIN_<ID>_<KEY>`.
    pub key: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A manifest that can't be used. The text says which field and what to do.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("manifest.json: {0}")]
pub struct InvalidManifest(pub String);

/// The file as it is written.
#[derive(Deserialize)]
struct File {
    id: String,
    name: String,
    version: String,
    api_version: String,
    description: Option<String>,
    icon_url: Option<String>,
    #[serde(default)]
    auth_type: AuthType,
    config_schema: Option<Box<RawValue>>,
    #[serde(default)]
    required_secrets: Vec<RequiredSecret>,
    #[serde(rename = "wasm_file")]
    module: Option<String>,
    /// Read entry by entry, for an error that says what is wrong with one.
    #[serde(default)]
    hosts: Vec<Value>,
    /// Asks for every public host.
    #[serde(default)]
    unrestricted_network: bool,
    /// Collections that a sync writes.
    #[serde(default)]
    collections: Vec<Nsid>,
    /// Collections that the plugin looks up in the index.
    #[serde(default)]
    lookups: Vec<Nsid>,
    /// Whether the instance signs records for the plugin.
    #[serde(default)]
    signs: bool,
}

/// A host with the methods that it lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    host: HostPattern,
    #[serde(default)]
    methods: Vec<String>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// The first reason why it is none.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidManifest> {
        if text.len() > MAX_BYTES {
            return Err(InvalidManifest(format!("larger than {MAX_BYTES} bytes")));
        }
        let file: File = serde_json::from_slice(text).map_err(|error| InvalidManifest(error.to_string()))?;
        check_api_version(&file.api_version)?;
        check_id(&file.id)?;
        let wasm_file = file.module.unwrap_or_else(|| "plugin.wasm".to_owned());
        check_wasm_file(&wasm_file)?;
        let texts = [Some(&file.name), file.description.as_ref(), file.icon_url.as_ref()];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_TEXT || text.contains('\0')) {
            return Err(InvalidManifest(format!(
                "name, description and icon_url have at most {MAX_TEXT} bytes"
            )));
        }
        if file
            .icon_url
            .as_ref()
            .is_some_and(|url| !url.starts_with("https://") && !url.starts_with("data:image/"))
        {
            return Err(InvalidManifest("icon_url must begin with https:// or data:image/".to_owned()));
        }
        let version = semver::Version::parse(&file.version)
            .map_err(|error| InvalidManifest(format!("version {:?}: {error}", file.version)))?;
        let lists =
            [file.hosts.len(), file.collections.len(), file.lookups.len(), file.required_secrets.len()];
        if lists.into_iter().any(|len| len > MAX_ENTRIES) {
            return Err(InvalidManifest(format!("a list has at most {MAX_ENTRIES} entries")));
        }
        check_secrets(&file.id, &file.required_secrets)?;
        Ok(Self {
            permissions: permissions(
                file.hosts,
                file.unrestricted_network,
                file.collections,
                file.lookups,
                file.signs,
            )?,
            id: file.id,
            name: file.name,
            version,
            description: file.description,
            icon_url: file.icon_url,
            auth_type: file.auth_type,
            config_schema: file.config_schema,
            required_secrets: file.required_secrets,
            wasm_file,
        })
    }

    /// The names of its secrets without the prefix.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        let prefix = secret_prefix(&self.id).len();
        self.required_secrets.iter().map(move |secret| &secret.key[prefix..])
    }
}

/// `PLUGIN_<ID>_`: the id in upper case, with `_` for every character that is not a letter or digit.
pub fn secret_prefix(id: &str) -> String {
    let upper: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("PLUGIN_{upper}_")
}

fn check_api_version(version: &str) -> Result<(), InvalidManifest> {
    match version.parse::<u32>() {
        Ok(API_VERSION) => Ok(()),
        Ok(other) => Err(InvalidManifest(format!(
            "api_version {other} is not supported; this server implements version {API_VERSION}"
        ))),
        Err(_) => Err(InvalidManifest(format!("api_version {version:?} is not an integer"))),
    }
}

fn check_id(id: &str) -> Result<(), InvalidManifest> {
    let starts = id.starts_with(|c: char| c.is_ascii_lowercase());
    let valid = id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if RESERVED_IDS.contains(&id) {
        return Err(InvalidManifest(format!("id {id:?} is reserved")));
    }
    if starts && valid && id.len() <= MAX_ID {
        return Ok(());
    }
    Err(InvalidManifest(format!(
        "id {id:?}: a lower-case letter, then lower-case letters, digits and hyphens, at most {MAX_ID}"
    )))
}

fn check_wasm_file(path: &str) -> Result<(), InvalidManifest> {
    let is_relative = !path.starts_with('/') && !path.contains(['\\', '\0', ':', '?', '#', '%']);
    let stays_below = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if is_relative && stays_below && path.len() <= MAX_TEXT {
        return Ok(());
    }
    Err(InvalidManifest(format!("wasm_file {path:?}: a path below the manifest's folder")))
}

fn check_secrets(id: &str, secrets: &[RequiredSecret]) -> Result<(), InvalidManifest> {
    let prefix = secret_prefix(id);
    for secret in secrets {
        let name = secret.key.strip_prefix(&prefix).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        {
            return Err(InvalidManifest(format!(
                "required_secrets: the key {:?} must be {prefix} and a name of A-Z, 0-9 and _",
                secret.key
            )));
        }
    }
    Ok(())
}

fn permissions(
    hosts: Vec<Value>,
    unrestricted: bool,
    collections: Vec<Nsid>,
    lookups: Vec<Nsid>,
    signs: bool,
) -> Result<Vec<Permission>, InvalidManifest> {
    let mut permissions = Vec::new();
    for entry in hosts {
        permissions.push(host_permission(entry).map_err(|text| InvalidManifest(format!("hosts: {text}")))?);
    }
    if unrestricted {
        permissions.push(Permission::UnrestrictedNetwork);
    }
    permissions.extend(collections.into_iter().map(Permission::WriteRecords));
    permissions.extend(lookups.into_iter().map(Permission::FindRecords));
    if signs {
        permissions.push(Permission::SignRecords);
    }
    Ok(permissions)
}

/// An entry of `hosts`: a host, or one with methods.
fn host_permission(entry: Value) -> Result<Permission, String> {
    let HostEntry { host, methods } = match entry {
        Value::String(host) => {
            let host = HostPattern::try_from(host).map_err(|error| error.to_string())?;
            HostEntry { host, methods: Vec::new() }
        }
        entry @ Value::Object(_) => {
            let shown = entry.to_string();
            serde_json::from_value(entry).map_err(|error| format!("{shown}: {error}"))?
        }
        other => return Err(format!("{other} is neither a host nor {{\"host\", \"methods\"}}")),
    };
    Permission::network(host, &methods).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
