//! Stores the session with a PDS that a completed authorization opened.

use crate::access::secrets;
use crate::app::App;
use belvedere_instance::oauth::CompletedFlow;
use belvedere_instance::pds::Registration;
use belvedere_protocol::crypto::jwk;
use belvedere_storage::store::dpop_keys::{self, DpopKeyRow};
use belvedere_web::http::Error;

/// Stores the session and its DPoP key, and returns the session's id.
///
/// # Errors
/// When the store fails.
pub(super) async fn store_session(app: &App, completed: &CompletedFlow) -> Result<String, Error> {
    let CompletedFlow { did, account, client, kid, key, tokens, .. } = completed;
    let key_id = secrets::provision_id(&app.random);
    let row = DpopKeyRow {
        sealed: app.sessions.vault.seal_key(&key_id, key),
        id: key_id,
        client_id: None,
        thumbprint: jwk::thumbprint(&key.public()).unwrap_or_default(),
        pkce_challenge: None,
        // Set when the session is registered: until then the sweep treats the key as unused.
        did: None,
        created_at: app.clock.now(),
    };
    dpop_keys::create(&app.db, &row).await?;
    let registration = Registration {
        key_id: &row.id,
        client_id: None,
        did,
        pds: &account.pds,
        issuer: &account.server.issuer,
        scopes: &tokens.scope,
        access_token: tokens.access_token.reveal(),
        refresh_token: tokens.refresh_token.as_ref().map(|token| token.reveal().as_str()),
        expires_at: tokens.expires_at,
        oauth_client_id: &client.client_id,
        assertion_kid: kid.as_deref(),
    };
    let id = app.sessions.vault.register(&registration).await?;
    id.ok_or_else(|| Error::internal("a DPoP key that was just created is gone"))
}
