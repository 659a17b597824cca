//! How the admin API shows a grant. Its session is never among the fields.

use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::linked_repos::GrantRow;

#[derive(Debug, Serialize)]
pub(super) struct GrantView {
    id: String,
    did: Option<String>,
    handle: Option<String>,
    reason: Option<String>,
    scopes: String,
    scripts: Vec<String>,
    status: String,
    last_error: Option<String>,
    last_refreshed_at: Option<Timestamp>,
    authorized_at: Option<Timestamp>,
    created_by: String,
    created_at: Timestamp,
}

impl From<GrantRow> for GrantView {
    fn from(row: GrantRow) -> Self {
        Self {
            id: row.id,
            did: row.did,
            handle: row.handle,
            reason: row.reason,
            scopes: row.scopes,
            scripts: row.scripts,
            status: row.status,
            last_error: row.last_error,
            last_refreshed_at: row.last_refreshed_at,
            authorized_at: row.authorized_at,
            created_by: row.created_by,
            created_at: row.created_at,
        }
    }
}
