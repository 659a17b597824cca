//! Reads the OAuth sessions of one account for its owner: those of applications, of browsers and of linked repos.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// Sessions that are shown. An account has up to that of each application, and rarely more than ten in all.
const MAX_SESSIONS: i64 = 500;

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct AccountSessionRow {
    pub id: String,
    /// The API client that registered it; `None` for the instance's own logins.
    pub client_id: Option<String>,
    pub name: Option<String>,
    pub client_uri: Option<String>,
    /// Space-separated.
    pub scopes: String,
    /// Origin of the PDS.
    pub pds: String,
    /// Whether there is a refresh token.
    pub refreshable: bool,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The browser, for a login with the dashboard.
    pub device: Option<String>,
    pub address: Option<String>,
    pub browser_used_at: Option<Timestamp>,
    pub is_linked_repo: bool,
    /// Whether the instance's own identity is changed through it.
    pub is_service: bool,
}

/// The sessions of an account, the most recently renewed first.
pub async fn list(db: &Db, did: &str) -> Result<Vec<AccountSessionRow>, StoreError> {
    let sql = "SELECT s.id, s.client_id, c.name, c.client_uri, s.scopes, s.pds, s.refreshable, s.expires_at, \
                   s.created_at, s.updated_at, w.device, w.address, w.last_used_at AS browser_used_at, \
                   EXISTS (SELECT 1 FROM linked_repos l WHERE l.session_id = s.id) AS is_linked_repo, \
                   EXISTS (SELECT 1 FROM service_identity i WHERE i.attached_session_id = s.id) AS is_service \
               FROM oauth_sessions s LEFT JOIN api_clients c ON c.id = s.client_id \
                   LEFT JOIN web_sessions w ON w.oauth_session_id = s.id \
               WHERE s.did = $1 ORDER BY s.updated_at DESC, s.id LIMIT $2";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(did).bind(MAX_SESSIONS).fetch_all(pool).await)?)
}
