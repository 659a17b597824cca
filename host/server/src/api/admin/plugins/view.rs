//! The views of plugins (admin-api.md §15).

use schemars::JsonSchema;
use semver::Version;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::plugins::calls::Function;
use belvedere_scripting::plugins::catalogue::CatalogueRelease;
use belvedere_scripting::plugins::install::Preview;
use belvedere_scripting::plugins::manifest::{AuthType, Manifest, Permission, RequiredSecret, Risk};
use belvedere_scripting::plugins::{CompileLimits, shown_url};
use belvedere_storage::store::plugins::{PluginRow, PluginSource, PluginState};

/// A permission as operators read it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginPermission {
    permission: String,
    sentence: String,
    risk: Risk,
    /// Absent as long as nothing was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted: Option<bool>,
}

impl PluginPermission {
    pub(super) fn undecided(permission: &Permission) -> Self {
        Self {
            permission: permission.to_string(),
            sentence: permission.sentence(),
            risk: permission.risk(),
            granted: None,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct PluginFunction {
    name: String,
    params: Vec<String>,
    help: Option<String>,
}

impl From<&Function> for PluginFunction {
    fn from(function: &Function) -> Self {
        let Function { name, params, help } = function.clone();
        Self { name, params, help }
    }
}

/// An installed plugin, or one that the configuration names and that can't be installed: then much of it is unknown.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plugin")]
pub struct Summary {
    id: String,
    name: String,
    description: Option<String>,
    icon_url: Option<String>,
    #[schemars(with = "Option<String>")]
    version: Option<Version>,
    source: PluginSource,
    url: Option<String>,
    /// The hash of the module; `manifest_sha256` is that of the manifest.
    sha256: Option<String>,
    manifest_sha256: Option<String>,
    /// Whether a reload takes no other module.
    pinned: bool,
    /// Whether it can be called.
    enabled: bool,
    /// `active`, `loading`, `failed`, `paused` or `removing`.
    status: &'static str,
    last_error: Option<String>,
    auth_type: Option<AuthType>,
    required_secrets: Vec<RequiredSecret>,
    secrets_configured: bool,
    permissions: Vec<PluginPermission>,
    functions: Vec<PluginFunction>,
    installed_by: Option<String>,
    installed_at: Option<Timestamp>,
    loaded_at: Option<Timestamp>,
    update_available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    latest_version: Option<Version>,
    pending_releases: Vec<CatalogueRelease>,
}

impl Summary {
    pub(super) fn new(app: &App, row: PluginRow) -> Self {
        let parts = &app.plugins;
        let (loaded, failure) = (parts.loaded.get(&row.id), parts.loaded.failures().remove(&row.id));
        let manifest = Manifest::parse(row.manifest.as_bytes()).ok();
        let newer = manifest.as_ref().map(|manifest| parts.catalogue.newer(&row.id, &manifest.version));
        let newer = newer.unwrap_or_default();
        let permissions = row.requested.iter().filter_map(|text| {
            let permission: Permission = text.parse().ok()?;
            let granted = Some(row.granted.contains(text));
            Some(PluginPermission { granted, ..PluginPermission::undecided(&permission) })
        });
        let status = match (row.status, &failure) {
            (PluginState::Active, Some(_)) => "failed",
            (PluginState::Active, None) if loaded.is_none() => "loading",
            (status, _) => status.as_str(),
        };
        let functions = loaded.iter().flat_map(|plugin| plugin.functions.iter().map(PluginFunction::from));
        Self {
            version: manifest.as_ref().map(|manifest| manifest.version.clone()),
            secrets_configured: manifest.as_ref().is_some_and(|one| parts.secrets.are_complete(one)),
            auth_type: manifest.as_ref().map(|manifest| manifest.auth_type),
            permissions: permissions.collect(),
            functions: functions.collect(),
            url: row.url.as_deref().map(shown_url),
            sha256: Some(row.module_sha256),
            manifest_sha256: Some(row.manifest_sha256),
            pinned: row.pinned,
            enabled: status == "active",
            last_error: failure.or(row.last_error),
            installed_by: row.installed_by,
            installed_at: Some(row.installed_at),
            loaded_at: Some(row.loaded_at),
            update_available: !newer.is_empty(),
            latest_version: parts.catalogue.latest(&row.id),
            pending_releases: newer,
            ..Self::shown(row.id, row.source, status, manifest)
        }
    }

    /// A plugin that the configuration names and that is not installed.
    pub(super) fn failed(app: &App, id: String, error: String) -> Self {
        let is_listed = app.config.plugins.urls.iter().any(|entry| entry.id == id);
        let source = if is_listed { PluginSource::Environment } else { PluginSource::File };
        Self { last_error: Some(error), ..Self::shown(id, source, "failed", None) }
    }

    fn shown(id: String, source: PluginSource, status: &'static str, manifest: Option<Manifest>) -> Self {
        let (name, description, icon_url, required_secrets) = match manifest {
            Some(manifest) => {
                (manifest.name, manifest.description, manifest.icon_url, manifest.required_secrets)
            }
            None => (id.clone(), None, None, Vec::new()),
        };
        Self {
            id,
            name,
            description,
            icon_url,
            required_secrets,
            version: None,
            source,
            url: None,
            sha256: None,
            manifest_sha256: None,
            pinned: false,
            enabled: false,
            status,
            last_error: None,
            auth_type: None,
            secrets_configured: false,
            permissions: Vec::new(),
            functions: Vec::new(),
            installed_by: None,
            installed_at: None,
            loaded_at: None,
            update_available: false,
            latest_version: None,
            pending_releases: Vec::new(),
        }
    }
}

/// A plugin that is not installed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginPreview {
    id: String,
    name: String,
    #[schemars(with = "String")]
    version: Version,
    description: Option<String>,
    icon_url: Option<String>,
    auth_type: AuthType,
    config_schema: Option<Box<RawValue>>,
    required_secrets: Vec<RequiredSecret>,
    manifest_url: Option<String>,
    wasm_url: Option<String>,
    sha256: String,
    manifest_sha256: String,
    /// The capabilities that the module imports.
    imports: Vec<&'static str>,
    permissions: Vec<PluginPermission>,
    compilation: PluginCompilation,
    /// The limits of a preview.
    note: &'static str,
}

/// The costs of installing a plugin.
#[derive(Debug, Serialize, JsonSchema)]
struct PluginCompilation {
    /// Whether the module has to be compiled; other installations wait for that.
    needed: bool,
    module_bytes: usize,
    functions: u32,
    /// Maximum processor seconds of compiling it; a module that takes longer is refused.
    max_seconds: u64,
    max_memory_mib: u64,
}

impl PluginCompilation {
    fn of(preview: &Preview, limits: CompileLimits) -> Self {
        let CompileLimits { seconds, memory_mib } = limits;
        Self {
            needed: !preview.is_compiled,
            module_bytes: preview.inspected.package.module.len(),
            functions: preview.inspected.surface.functions,
            max_seconds: seconds,
            max_memory_mib: memory_mib,
        }
    }
}

/// The module is not compiled for a preview, so it can't say anything of itself.
const PREVIEW_NOTE: &str =
    "what the module describes itself as is compared with the manifest when it is installed";

impl PluginPreview {
    pub(super) fn of(preview: Preview, limits: CompileLimits) -> Self {
        let compilation = PluginCompilation::of(&preview, limits);
        let Preview { inspected, manifest_url, wasm_url, .. } = preview;
        let file = inspected.package.manifest;
        Self {
            id: file.manifest.id,
            name: file.manifest.name,
            version: file.manifest.version,
            description: file.manifest.description,
            icon_url: file.manifest.icon_url,
            auth_type: file.manifest.auth_type,
            config_schema: file.manifest.config_schema,
            required_secrets: file.manifest.required_secrets,
            manifest_url,
            wasm_url,
            sha256: inspected.package.module_sha256,
            manifest_sha256: file.sha256,
            imports: inspected.surface.imports,
            compilation,
            permissions: inspected.requested.iter().map(PluginPermission::undecided).collect(),
            note: PREVIEW_NOTE,
        }
    }
}
