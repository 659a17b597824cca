//! Events of lexicons that follow the network.

use serde_json::{Value, json};

use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::events::Severity;

/// What happened to a lexicon that follows the network.
#[derive(Clone, Debug)]
pub struct NetworkLexiconEvent {
    pub nsid: Nsid,
    /// The acting user; `None` when the server followed a change on the network.
    pub actor: Option<String>,
    pub what: NetworkLexiconChange,
}

#[derive(Clone, Debug)]
pub enum NetworkLexiconChange {
    Added {
        authority: Did,
        revision: i64,
    },
    Updated {
        authority: Did,
        revision: i64,
    },
    /// By a user, or because its publisher deleted it.
    Removed,
    /// DNS names another publisher, whose lexicon was taken.
    AuthorityChanged {
        from: Option<String>,
        to: Did,
    },
    /// It could not be fetched; the last document stays.
    RefreshFailed {
        reason: String,
    },
    /// The published document breaks the one here, which stays.
    ChangeRefused {
        authority: Did,
        reason: String,
    },
}

/// Type, severity and detail of an event's row.
pub(super) fn describe(change: NetworkLexiconChange) -> (&'static str, Severity, Value) {
    use NetworkLexiconChange as Change;
    use Severity::{Info, Warn};
    match change {
        Change::Added { authority, revision } => {
            let detail = json!({ "authority_did": authority.as_str(), "revision": revision });
            ("network_lexicon.added", Info, detail)
        }
        Change::Updated { authority, revision } => {
            let detail = json!({ "authority_did": authority.as_str(), "revision": revision });
            ("network_lexicon.updated", Info, detail)
        }
        Change::Removed => ("network_lexicon.removed", Info, json!({})),
        Change::AuthorityChanged { from, to } => {
            let detail = json!({ "from": from, "to": to.as_str() });
            ("network_lexicon.authority_changed", Warn, detail)
        }
        Change::RefreshFailed { reason } => {
            ("network_lexicon.refresh_failed", Warn, json!({ "reason": reason }))
        }
        Change::ChangeRefused { authority, reason } => {
            let detail = json!({ "authority_did": authority.as_str(), "reason": reason });
            ("network_lexicon.change_refused", Warn, detail)
        }
    }
}
