//! Events of accounts at other services that users link through plugins, and their rows of the event log (admin-api.md §16).

use serde_json::json;

use super::describe::{EventFields, truncate};
use belvedere_storage::store::events::Severity::{Info, Warn};

/// Something that happened to a user's account at another service.
#[derive(Clone, Debug)]
pub struct ExternalAccountEvent {
    /// The user.
    pub did: String,
    pub plugin: String,
    pub what: ExternalAccountChange,
}

/// What happened. `account` is the account's id at the service.
#[derive(Clone, Debug)]
pub enum ExternalAccountChange {
    Linked {
        account: String,
        collections: Vec<String>,
        /// The account that the user had linked before, if it was another one. Its tokens are revoked.
        replaced: Option<String>,
    },
    /// A sign-in did not succeed. `did` is empty when the sign-in is unknown.
    LinkFailed { reason: String },
    Unlinked {
        account: String,
        /// `user`, `plugin_removed` or `account_deleted`.
        reason: &'static str,
    },
    /// The tokens of an unlinked account could not be revoked at the service: they expire by themselves.
    RevocationFailed { account: String, error: String },
    /// The service no longer accepts the tokens.
    Expired { account: String },
    Synced {
        account: String,
        processed: i64,
        written: i64,
        skipped: i64,
        /// Why the first item was skipped.
        note: Option<String>,
    },
    SyncFailed {
        account: String,
        /// Code and text.
        error: String,
        processed: i64,
        written: i64,
    },
}

impl ExternalAccountEvent {
    pub(super) fn describe(self) -> EventFields {
        use ExternalAccountChange as Change;
        let (event_type, severity, detail) = match self.what {
            Change::Linked { account, collections, replaced } => {
                let detail =
                    json!({ "account_id": account, "collections": collections, "replaced": replaced });
                ("external_account.linked", Info, detail)
            }
            Change::LinkFailed { reason } => {
                ("external_account.link_failed", Warn, json!({ "reason": truncate(reason) }))
            }
            Change::Unlinked { account, reason } => {
                ("external_account.unlinked", Info, json!({ "account_id": account, "reason": reason }))
            }
            Change::RevocationFailed { account, error } => {
                ("external_account.revocation_failed", Warn, json!({ "account_id": account, "error": error }))
            }
            Change::Expired { account } => {
                ("external_account.expired", Warn, json!({ "account_id": account }))
            }
            Change::Synced { account, processed, written, skipped, note } => {
                let detail = json!({
                    "account_id": account,
                    "processed": processed,
                    "written": written,
                    "skipped": skipped,
                    "note": note,
                });
                ("external_account.synced", Info, detail)
            }
            Change::SyncFailed { account, error, processed, written } => {
                let detail = json!({
                    "account_id": account,
                    "error": error,
                    "processed": processed,
                    "written": written,
                });
                ("external_account.sync_failed", Warn, detail)
            }
        };
        let actor_did = (!self.did.is_empty()).then_some(self.did);
        EventFields { event_type, severity, actor_did, subject: Some(self.plugin), detail }
    }
}
