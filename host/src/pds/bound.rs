//! A session whose tokens are bound to a DPoP key: requests with proofs, and newer tokens when the old ones are over.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;

use super::vault::Held;
use super::{PdsError, RenewError, Vault};
use crate::crypto::PrivateKey;
use crate::net::{Fetched, Limits, Outgoing};
use crate::oauth::Parcel;

/// A token that ends this soon is renewed before it is used: no call may outlive its token on the way.
const AHEAD_SECONDS: i64 = 30;

/// Cheap to share: all calls of a run see the same tokens.
#[derive(Debug)]
pub struct BoundSession {
    vault: Vault,
    id: String,
    key: PrivateKey,
    tokens: Mutex<Arc<Held>>,
}

impl BoundSession {
    pub(super) fn new(vault: Vault, id: String, key: PrivateKey, tokens: Held) -> Self {
        Self { vault, id, key, tokens: Mutex::new(Arc::new(tokens)) }
    }

    fn known(&self) -> Arc<Held> {
        Arc::clone(&self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tokens that are good for a while.
    async fn current(&self) -> Result<Arc<Held>, PdsError> {
        let tokens = self.known();
        let soon = self.vault.courier().clock().now().plus_seconds(AHEAD_SECONDS);
        match tokens.expires_at {
            Some(expires_at) if expires_at <= soon && tokens.refreshable => self.renew(&tokens).await,
            _ => Ok(tokens),
        }
    }

    async fn renew(&self, old: &Held) -> Result<Arc<Held>, PdsError> {
        let new = self.vault.renew(&self.id, old.version).await.map_err(|error| match error {
            RenewError::Ended => PdsError::Ended,
            other => PdsError::Renewal(Box::new(other)),
        })?;
        let new = Arc::new(new);
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        Ok(new)
    }

    /// Sends a request, once more with newer tokens when the PDS calls these over.
    pub(super) async fn send(&self, parcel: &Parcel<'_>) -> Result<Fetched, PdsError> {
        let tokens = self.current().await?;
        let courier = self.vault.courier();
        let fetched = courier.send(&self.key, Some(tokens.access.reveal()), parcel).await?;
        if !is_over(&fetched) {
            return Ok(fetched);
        }
        if !tokens.refreshable {
            return Err(PdsError::Ended);
        }
        let tokens = self.renew(&tokens).await?;
        Ok(courier.send(&self.key, Some(tokens.access.reveal()), parcel).await?)
    }

    /// Sends a request whose body can be sent once. A small request goes ahead: it brings tokens and nonce up to date,
    /// and finds out what else the PDS may have against this session before anybody's megabytes are on their way.
    pub(super) async fn send_once(
        &self,
        ahead: &Parcel<'_>,
        parcel: Parcel<'_>,
        body: Outgoing,
        limits: Limits,
    ) -> Result<Fetched, PdsError> {
        let heard = self.send(ahead).await?;
        if heard.status == StatusCode::UNAUTHORIZED {
            return Ok(heard);
        }
        let tokens = self.known();
        let token = Some(tokens.access.reveal().as_str());
        let courier = self.vault.courier();
        let Parcel { method, url, headers, .. } = parcel;
        Ok(courier.once(&self.key, token, &method, url, headers, Some(body), limits).await?)
    }
}

/// Whether the PDS does not take the access token any more (RFC 6750 §3.1; older PDSs say it in the body alone).
fn is_over(fetched: &Fetched) -> bool {
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
