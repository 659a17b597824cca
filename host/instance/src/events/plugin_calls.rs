//! Events of calls of plugins, and their rows of the event log (admin-api.md §16).

use serde_json::{Value, json};

use super::describe::EventFields;
use belvedere_storage::store::events::Severity;

/// Something that happened while a plugin was called.
#[derive(Clone, Debug)]
pub enum PluginCallEvent {
    /// A line of the plugin's log. `level` is `debug`, `info`, `warn` or `error`.
    Log { plugin: String, level: &'static str, severity: Severity, message: String, fields: Option<Value> },
    /// A call of one of its interfaces gave no answer.
    Failed { plugin: String, interface: &'static str, cause: &'static str, error: String },
    /// It trapped too often in a row.
    Paused { plugin: String, traps: u32, error: String },
}

impl PluginCallEvent {
    pub(super) fn describe(self) -> EventFields {
        let row = |event_type, severity, plugin: String, detail| EventFields {
            event_type,
            severity,
            actor_did: None,
            subject: Some(plugin),
            detail,
        };
        match self {
            Self::Log { plugin, level, severity, message, fields } => {
                let mut detail = json!({ "level": level, "message": message });
                if let Some(fields) = fields {
                    detail["fields"] = fields;
                }
                row("plugin.log", severity, plugin, detail)
            }
            Self::Failed { plugin, interface, cause, error } => {
                let detail = json!({ "interface": interface, "cause": cause, "error": error });
                row("plugin.failed", Severity::Warn, plugin, detail)
            }
            Self::Paused { plugin, traps, error } => {
                row("plugin.paused", Severity::Error, plugin, json!({ "traps": traps, "error": error }))
            }
        }
    }
}
