//! Events of labelers, and their rows of the event log (admin-api.md §16).

use serde_json::json;

use super::describe::EventFields;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::events::Severity::{Info, Warn};

/// Something that happened to a labeler. `cursor` and `last_seq` are numbers of messages; `None` before the first.
#[derive(Clone, Debug)]
pub enum LabelerEvent {
    Added {
        actor: String,
        did: Did,
    },
    Updated {
        actor: String,
        did: String,
        status: &'static str,
    },
    Deleted {
        actor: String,
        did: String,
    },
    Connected {
        did: Did,
    },
    /// The connection ended, or the first of a series of attempts failed.
    Disconnected {
        did: Did,
        last_seq: Option<i64>,
        reason: String,
    },
    /// The labeler doesn't know our cursor and is read from its first message again.
    CursorReset {
        did: Did,
        cursor: Option<i64>,
    },
    /// The labeler no longer has the messages after our cursor: their labels are missing.
    CursorOutdated {
        did: Did,
        cursor: Option<i64>,
    },
    /// Messages that ended every connection are left out.
    Skipped {
        did: Did,
        from: i64,
        to: i64,
    },
    /// Labels or messages were refused. Recorded for the first of each kind; the metrics count them.
    Refused {
        did: Did,
        kind: &'static str,
        reason: String,
    },
}

impl LabelerEvent {
    pub(super) fn describe(self) -> EventFields {
        let row = |event_type, severity, actor_did, did: String, detail| EventFields {
            event_type,
            severity,
            actor_did,
            subject: Some(did),
            detail,
        };
        match self {
            Self::Added { actor, did } => row("labeler.added", Info, Some(actor), did.to_string(), json!({})),
            Self::Updated { actor, did, status } => {
                row("labeler.updated", Info, Some(actor), did, json!({ "status": status }))
            }
            Self::Deleted { actor, did } => row("labeler.deleted", Info, Some(actor), did, json!({})),
            Self::Connected { did } => {
                row("labeler.connected", Info, None, did.to_string(), json!({ "did": did.as_str() }))
            }
            Self::Disconnected { did, last_seq, reason } => {
                let detail = json!({ "did": did.as_str(), "last_seq": last_seq, "reason": reason });
                row("labeler.disconnected", Warn, None, did.to_string(), detail)
            }
            Self::CursorReset { did, cursor } => {
                let detail = json!({ "did": did.as_str(), "cursor": cursor });
                row("labeler.cursor_reset", Warn, None, did.to_string(), detail)
            }
            Self::CursorOutdated { did, cursor } => {
                let detail = json!({ "did": did.as_str(), "cursor": cursor });
                row("labeler.cursor_outdated", Warn, None, did.to_string(), detail)
            }
            Self::Skipped { did, from, to } => {
                let detail = json!({ "did": did.as_str(), "from": from, "to": to });
                row("labeler.messages_skipped", Warn, None, did.to_string(), detail)
            }
            Self::Refused { did, kind, reason } => {
                let detail = json!({ "did": did.as_str(), "kind": kind, "reason": reason });
                row("labeler.labels_refused", Warn, None, did.to_string(), detail)
            }
        }
    }
}
