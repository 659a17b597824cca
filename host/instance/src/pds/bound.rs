//! Sends requests with a session whose tokens are bound to a DPoP key, and renews the tokens when they expire.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;

use super::vault::SessionTokens;
use super::{PdsError, Vault};
use crate::oauth::DpopRequest;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::PrivateKey;
use belvedere_storage::store::oauth_sessions::SessionRow;
use belvedere_web::net::{FetchedResponse, Limits, OutboundBody};

/// A token that expires within this many seconds is renewed before use, so that it does not expire during a call.
const RENEW_AHEAD_SECONDS: i64 = 30;

/// An OAuth session with its DPoP key and its present tokens. All calls of a run share one.
#[derive(Debug)]
pub struct BoundSession {
    vault: Vault,
    id: String,
    did: Did,
    /// Origin of the PDS at which the session was made.
    pds: String,
    key: PrivateKey,
    tokens: Mutex<Arc<SessionTokens>>,
}

impl BoundSession {
    pub(super) fn new(
        vault: Vault,
        row: &SessionRow,
        did: Did,
        key: PrivateKey,
        tokens: SessionTokens,
    ) -> Self {
        let (id, pds) = (row.id.clone(), row.pds.clone());
        Self { vault, id, did, pds, key, tokens: Mutex::new(Arc::new(tokens)) }
    }

    fn cached_tokens(&self) -> Arc<SessionTokens> {
        Arc::clone(&self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The tokens, renewed if they expire soon.
    async fn valid_tokens(&self) -> Result<Arc<SessionTokens>, PdsError> {
        let tokens = self.cached_tokens();
        let soon = self.vault.dpop_client().clock().now().plus_seconds(RENEW_AHEAD_SECONDS);
        match tokens.expires_at {
            Some(expires_at) if expires_at <= soon && tokens.refreshable => self.renew(&tokens).await,
            _ => Ok(tokens),
        }
    }

    async fn renew(&self, old: &SessionTokens) -> Result<Arc<SessionTokens>, PdsError> {
        let new = self.vault.renew(&self.id, old.version).await.map_err(PdsError::renewal)?;
        let new = Arc::new(new);
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        Ok(new)
    }

    /// Sends a request, unless the account has moved; renews the tokens and repeats it when the PDS rejects the access
    /// token.
    pub(super) async fn send(&self, request: &DpopRequest<'_>) -> Result<FetchedResponse, PdsError> {
        // Boxed, because the future would make those of all callers large.
        let checked = Box::pin(self.vault.check_pds(&self.id, &self.did, &self.pds)).await;
        checked.map_err(PdsError::unresolved)?;
        let tokens = self.valid_tokens().await?;
        let dpop_client = self.vault.dpop_client();
        let fetched = dpop_client.send(&self.key, Some(tokens.access.reveal()), request).await?;
        if !rejects_token(&fetched) {
            return Ok(fetched);
        }
        if !tokens.refreshable {
            return Err(PdsError::Ended);
        }
        let tokens = self.renew(&tokens).await?;
        Ok(dpop_client.send(&self.key, Some(tokens.access.reveal()), request).await?)
    }

    /// Sends a request whose body is a stream and can't be repeated. The small request `probe` is sent first: it renews
    /// the tokens and the nonce if necessary, and shows whether the PDS accepts the session before the body is sent.
    pub(super) async fn send_stream(
        &self,
        probe: &DpopRequest<'_>,
        request: DpopRequest<'_>,
        body: OutboundBody,
        limits: Limits,
    ) -> Result<FetchedResponse, PdsError> {
        let probed = self.send(probe).await?;
        if probed.status == StatusCode::UNAUTHORIZED {
            return Ok(probed);
        }
        let tokens = self.cached_tokens();
        let token = Some(tokens.access.reveal().as_str());
        let dpop_client = self.vault.dpop_client();
        let DpopRequest { method, url, headers, .. } = request;
        Ok(dpop_client.send_once(&self.key, token, &method, url, headers, Some(body), limits).await?)
    }
}

/// Whether the PDS rejects the access token as invalid or expired (RFC 6750 §3.1; older PDSs report it in the body
/// only).
fn rejects_token(fetched: &FetchedResponse) -> bool {
    if !matches!(fetched.status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) {
        return false;
    }
    let challenged = fetched.headers.get_all(WWW_AUTHENTICATE).iter();
    challenged.filter_map(|value| value.to_str().ok()).any(|text| text.contains("invalid_token"))
        || matches!(
            crate::oauth::error_code(&fetched.body).as_str(),
            "invalid_token" | "InvalidToken" | "ExpiredToken"
        )
}
