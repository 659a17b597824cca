//! Events of the instance's identity, its services and its keys.

use serde_json::{Value, json};

use super::describe::EventFields;
use belvedere_storage::store::events::Severity;

/// `actor` is the DID of the acting user.
#[derive(Clone, Debug)]
pub enum ServiceIdentityEvent {
    Updated {
        actor: String,
        mode: &'static str,
    },
    /// A did:plc was registered for the instance.
    Registered {
        actor: String,
        did: String,
    },
    /// The rotation key, which controls the DID, was given to the user.
    RotationKeyExported {
        actor: String,
    },
    SetupCompleted,
    EntryCreated {
        actor: String,
        id: i64,
        fragment: String,
        service_type: String,
    },
    /// The changed fields, or the methods that were bound or unbound.
    EntryUpdated {
        actor: String,
        id: i64,
        change: Value,
    },
    EntryDeleted {
        actor: String,
        id: i64,
    },
    /// The DID document at the PLC directory was brought up to date.
    PlcSynced {
        actor: String,
        mode: &'static str,
    },
    MethodCreated {
        actor: String,
        fragment: String,
    },
    MethodDeleted {
        actor: String,
        fragment: String,
    },
}

impl ServiceIdentityEvent {
    pub(super) fn describe(self) -> EventFields {
        use Severity::{Info, Warn};
        let row = |event_type, severity, actor_did: Option<String>, subject: Option<String>, detail| {
            EventFields { event_type, severity, actor_did, subject, detail }
        };
        match self {
            Self::Updated { actor, mode } => {
                row("service_identity.updated", Info, Some(actor), None, json!({ "mode": mode }))
            }
            Self::Registered { actor, did } => {
                row("service_identity.registered", Info, Some(actor), Some(did), json!({}))
            }
            Self::RotationKeyExported { actor } => {
                row("service_identity.rotation_key_exported", Warn, Some(actor), None, json!({}))
            }
            Self::SetupCompleted => row("setup.completed", Info, None, None, json!({})),
            Self::EntryCreated { actor, id, fragment, service_type } => {
                let detail = json!({ "fragment_id": fragment, "service_type": service_type });
                row("service_entry.created", Info, Some(actor), Some(id.to_string()), detail)
            }
            Self::EntryUpdated { actor, id, change } => {
                row("service_entry.updated", Info, Some(actor), Some(id.to_string()), change)
            }
            Self::EntryDeleted { actor, id } => {
                row("service_entry.deleted", Info, Some(actor), Some(id.to_string()), json!({}))
            }
            Self::PlcSynced { actor, mode } => {
                row("service_entry.plc_synced", Info, Some(actor), None, json!({ "mode": mode }))
            }
            Self::MethodCreated { actor, fragment } => {
                let detail = json!({ "fragment_id": fragment });
                row("verification_method.created", Info, Some(actor), Some(fragment), detail)
            }
            Self::MethodDeleted { actor, fragment } => {
                let detail = json!({ "fragment_id": fragment });
                row("verification_method.deleted", Info, Some(actor), Some(fragment), detail)
            }
        }
    }
}
