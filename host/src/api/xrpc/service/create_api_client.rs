//! `POST /xrpc/dev.service.createApiClient`: an application of the caller's own, under the one they log in with. It may
//! never more than that one.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::view::ClientView;
use crate::access::ClientUser;
use crate::access::scopes::{self, NotGranted};
use crate::api::clients::{ClientType, NewClient};
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    scopes: Option<String>,
    client_type: Option<String>,
    #[serde(default)]
    allowed_origins: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    client: ClientView,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<&'a str>,
}

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    if caller.client.parent.is_some() {
        return Err(Error::forbidden("Child clients cannot create API clients"));
    }
    let body: Body = request.json().map_err(|_| Error::bad_request("invalid request body"))?;
    let client_type = match body.client_type.as_deref() {
        None | Some("confidential") => ClientType::Confidential,
        Some("public") => ClientType::Public,
        Some(_) => return Err(Error::bad_request("Invalid client_type")),
    };
    let scopes = body.scopes.unwrap_or_else(|| "atproto".to_owned());
    scopes::within(&app.db, &caller.client.scopes, &scopes).await.map_err(|error| match error {
        NotGranted::Store(error) => Error::from(error),
        NotGranted::Beyond(scope) => {
            Error::bad_request(format!("scope '{scope}' is not allowed for the parent client"))
        }
        NotGranted::NoAtproto => Error::bad_request("scopes must include atproto"),
        NotGranted::Malformed(error) => Error::bad_request(error.to_string()),
    })?;
    let new = NewClient {
        name: body.name,
        client_id_url: body.client_id_url,
        client_uri: body.client_uri,
        redirect_uris: body.redirect_uris,
        scopes: Some(scopes),
        client_type,
        allowed_origins: body.allowed_origins.unwrap_or_default(),
        rate_limit_capacity: None,
        rate_limit_refill_rate: None,
        created_by: caller.did.to_string(),
        parent: Some((caller.client.id.clone(), caller.did.to_string())),
    };
    let (client, credentials) = new.register(&app).await?;
    app.events.record(Event::ApiClientCreated {
        actor: caller.did.to_string(),
        name: client.name.clone(),
        client_key: client.client_key.clone(),
        client_id_url: client.client_id_url.clone(),
        parent_client_id: Some(caller.client.id.clone()),
    });
    let answer = Answer { client: client.into(), client_secret: credentials.reveal_secret() };
    Ok(response::json(StatusCode::CREATED, &answer))
}
