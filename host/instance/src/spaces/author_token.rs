//! Tokens in the name of authors. The authority of a space accepts a notice from the author's host only, and the key of an
//! account is at its PDS: so the PDS signs, with a session that the author has here.

use serde::Deserialize;
use url::form_urlencoded;

use super::Spaces;
use crate::pds::SessionSelector;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::r10::token::host_of;
use belvedere_storage::store::{StoreError, oauth_sessions};
use belvedere_web::fair_share::Tenant;

/// Sessions of an author that are tried: some have no scope for the token, or have ended.
const MAX_SESSIONS: usize = 3;

/// An answer with a service token or a delegation token. An older generation of the latter has another name, and some servers send
/// both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenAnswer {
    token: Option<String>,
    delegation_token: Option<String>,
}

/// Reads the answer to a request for a token.
pub(super) fn token_in(body: &[u8]) -> Option<String> {
    let answer: TokenAnswer = serde_json::from_slice(body).ok()?;
    answer.token.or(answer.delegation_token)
}

impl Spaces {
    /// A token of an author for one call of `method` at the host of the spaces of `authority`; `None` when no session of the author
    /// gives one.
    pub(super) async fn author_token(
        &self,
        author: &Did,
        authority: &Did,
        method: &str,
    ) -> Result<Option<String>, StoreError> {
        // Some PDSs sign only for a DID without the fragment of a service.
        for audience in [host_of(authority), authority.to_string()] {
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("aud", &audience)
                .append_pair("lxm", method)
                .finish();
            let call = format!("com.atproto.server.getServiceAuth?{query}");
            if let Some(token) = self.token_of_pds(author, &call).await? {
                return Ok(Some(token));
            }
        }
        Ok(None)
    }

    /// The token that the PDS of an account answers a call with; `None` when no session of the account gets one.
    pub(super) async fn token_of_pds(&self, account: &Did, call: &str) -> Result<Option<String>, StoreError> {
        let sessions = oauth_sessions::of_accounts(&self.core().db, std::slice::from_ref(account)).await?;
        for stored in sessions.iter().take(MAX_SESSIONS) {
            let Some(session) = self.0.repos.session(SessionSelector::Id(&stored.id)).await? else {
                continue;
            };
            let answer = self.0.repos.agent(&session, &Tenant::Instance).query(call).await;
            match answer.map(|body| token_in(&body)) {
                Ok(Some(token)) => return Ok(Some(token)),
                Ok(None) => tracing::info!(%account, "a PDS answers without a token"),
                Err(error) => tracing::info!(%account, %error, "a PDS gives no token"),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_two_names() {
        for body in [
            r#"{"token":"a"}"#,
            r#"{"delegationToken":"a"}"#,
            r#"{"delegationToken":"b","token":"a","expiresAt":"2030-01-01T00:00:00Z"}"#,
            r#"{"delegationToken":"a","token":null}"#,
        ] {
            assert_eq!(token_in(body.as_bytes()).as_deref(), Some("a"), "{body}");
        }
        for body in ["{}", "", r#"{"token":1}"#] {
            assert_eq!(token_in(body.as_bytes()), None, "{body}");
        }
    }
}
