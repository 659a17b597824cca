//! Tokens in the name of authors. The authority of a space accepts a notice from the author's host only, and the key of an
//! account is at its PDS: so the PDS signs, with a session that the author has here.

use serde::Deserialize;
use url::form_urlencoded;

use super::Spaces;
use crate::pds::SessionSelector;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::{StoreError, oauth_sessions};
use belvedere_web::fair_share::Tenant;

/// Sessions of an author that are tried: some have no scope for the token, or have ended.
const MAX_SESSIONS: usize = 3;

#[derive(Deserialize)]
struct Answer {
    token: String,
}

impl Spaces {
    /// A token of an author for one call of `method` at `audience`; `None` when no session of the author gives one.
    pub(super) async fn author_token(
        &self,
        author: &Did,
        audience: &str,
        method: &str,
    ) -> Result<Option<String>, StoreError> {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("aud", audience)
            .append_pair("lxm", method)
            .finish();
        let call = format!("com.atproto.server.getServiceAuth?{query}");
        let sessions = oauth_sessions::of_accounts(&self.core().db, std::slice::from_ref(author)).await?;
        for stored in sessions.iter().take(MAX_SESSIONS) {
            let Some(session) = self.0.repos.session(SessionSelector::Id(&stored.id)).await? else {
                continue;
            };
            match self.0.repos.agent(&session, &Tenant::Instance).query(&call).await {
                Ok(body) => match serde_json::from_slice(&body) {
                    Ok(Answer { token }) => return Ok(Some(token)),
                    Err(error) => tracing::info!(%author, %error, "a PDS answers without a token"),
                },
                Err(error) => tracing::info!(%author, %error, "a PDS signs no token for a notice"),
            }
        }
        Ok(None)
    }
}
