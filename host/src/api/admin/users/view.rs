//! A user, as admins see it (service.md, Admin user).

use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::users::UserRow;

#[derive(Serialize)]
pub(super) struct UserView {
    id: String,
    did: String,
    is_super: bool,
    permissions: Vec<String>,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
}

impl From<UserRow> for UserView {
    fn from(row: UserRow) -> Self {
        Self {
            id: row.id,
            did: row.did,
            is_super: row.is_super,
            permissions: row.permissions,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
        }
    }
}
