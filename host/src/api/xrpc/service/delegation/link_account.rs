//! `POST delegation.linkAccount`: the caller becomes the owner of an account that others may write for. That its holder
//! agrees is shown by a proof with that account's own session: who has none can't give it away.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::did;
use crate::access::ClientUser;
use crate::access::delegation::Role;
use crate::access::dpop::Shown;
use crate::app::App;
use crate::config::Secret;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::StoreError;
use crate::store::delegates::{self, DelegateRow};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    did: String,
    /// The access token that the account's session was registered with.
    account_token: Option<Secret<String>>,
    /// A DPoP proof for this request by the account's key.
    account_proof: Option<String>,
}

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let account = did("did", &body.did)?;
    if account == caller.did {
        return Err(Error::bad_request("you can't link your own account"));
    }
    let (Some(token), Some(proof)) = (&body.account_token, &body.account_proof) else {
        let text = "accountToken and accountProof must show that the account's holder agrees";
        return Err(Error::bad_request(text));
    };
    let (method, path) = (request.method(), request.uri().path());
    let shown = Shown { method, path, token: token.reveal(), proof };
    let session = app.access.proofs.verify(&caller.client, &shown).await?;
    if session.did != account {
        return Err(Error::bad_request("accountProof is by a session of another account"));
    }
    let owner = DelegateRow {
        account_did: account.to_string(),
        user_did: caller.did.to_string(),
        role: Role::Owner.as_str().to_owned(),
        granted_by: caller.did.to_string(),
        created_at: app.clock.now(),
    };
    delegates::add(&app.db, &caller.client.id, &owner).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("the account is already linked"),
        other => Error::from(other),
    })?;
    let (actor, account) = (caller.did.to_string(), account.to_string());
    app.events.record(Event::AccountLinked { actor, account: account.clone() });
    Ok(response::json(StatusCode::CREATED, &json!({ "did": account })))
}
