//! Events of plugins, and their rows of the event log (admin-api.md §16).

use serde_json::{Value, json};

use super::describe::EventFields;
use belvedere_storage::store::events::Severity::{Info, Warn};

/// Something that operators did with plugins. `actor` is `None` for plugins that the configuration names.
#[derive(Clone, Debug)]
pub enum PluginEvent {
    Added {
        actor: Option<String>,
        id: String,
        url: Option<String>,
        version: String,
        module_sha256: String,
        granted: Vec<String>,
    },
    /// `changes`: what differs from the version before.
    Reloaded {
        actor: Option<String>,
        id: String,
        url: Option<String>,
        changes: Value,
    },
    /// A plugin was not installed or not reloaded. `id` is `None` as long as the manifest can't be read.
    Refused {
        actor: Option<String>,
        id: Option<String>,
        url: Option<String>,
        error: String,
    },
    Removed {
        actor: String,
        id: String,
    },
    SecretsUpdated {
        actor: String,
        id: String,
    },
    GrantsUpdated {
        actor: String,
        id: String,
        granted: Vec<String>,
        denied: Vec<String>,
    },
    Resumed {
        actor: String,
        id: String,
    },
}

impl PluginEvent {
    pub(super) fn describe(self) -> EventFields {
        let row = |event_type, severity, actor_did: Option<String>, subject: Option<String>, detail| {
            EventFields { event_type, severity, actor_did, subject, detail }
        };
        match self {
            Self::Added { actor, id, url, version, module_sha256, granted } => {
                let detail =
                    json!({ "url": url, "version": version, "sha256": module_sha256, "granted": granted });
                row("plugin.added", Info, actor, Some(id), detail)
            }
            Self::Reloaded { actor, id, url, changes } => {
                let detail = json!({ "url": url, "changes": changes });
                row("plugin.reloaded", Info, actor, Some(id), detail)
            }
            Self::Refused { actor, id, url, error } => {
                row("plugin.refused", Warn, actor, id, json!({ "url": url, "error": error }))
            }
            Self::Removed { actor, id } => row("plugin.removed", Info, Some(actor), Some(id), json!({})),
            Self::SecretsUpdated { actor, id } => {
                row("plugin.secrets_updated", Info, Some(actor), Some(id), json!({}))
            }
            Self::GrantsUpdated { actor, id, granted, denied } => {
                let detail = json!({ "granted": granted, "denied": denied });
                row("plugin.grants_updated", Info, Some(actor), Some(id), detail)
            }
            Self::Resumed { actor, id } => row("plugin.resumed", Info, Some(actor), Some(id), json!({})),
        }
    }
}
