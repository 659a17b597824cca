//! How the admin API shows a script.

use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::scripts::ScriptRow;

#[derive(Debug, Serialize)]
pub(super) struct ScriptView {
    id: String,
    script_type: String,
    body: String,
    description: Option<String>,
    outbound_xrpcs: Option<Vec<String>>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<ScriptRow> for ScriptView {
    fn from(row: ScriptRow) -> Self {
        Self {
            id: row.id,
            script_type: row.script_type,
            body: row.body,
            description: row.description,
            outbound_xrpcs: row.outbound_xrpcs,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}
