//! `POST /admin/api-clients`: register an application. Its key works from the answer on; its secret is shown once.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::check;
use crate::access::{Admin, ClientCredentials};
use crate::api::failed;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::StoreError;
use crate::store::api_clients::{self, ApiClientRow};

#[derive(Deserialize)]
struct Body {
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    scopes: Option<String>,
    #[serde(default)]
    client_type: ClientType,
    #[serde(default)]
    allowed_origins: Option<Vec<String>>,
    rate_limit_capacity: Option<i64>,
    rate_limit_refill_rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ClientType {
    #[default]
    Confidential,
    Public,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    client_key: &'a str,
    /// Only confidential clients have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<&'a str>,
    name: &'a str,
    client_id_url: &'a str,
    client_type: ClientType,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    check_body(&body)?;
    let credentials = match body.client_type {
        ClientType::Confidential => ClientCredentials::confidential(&app.random),
        ClientType::Public => ClientCredentials::public(&app.random),
    };
    let now = app.clock.now();
    let client = ApiClientRow {
        id: app.random.uuid(),
        client_key: credentials.key().to_owned(),
        client_secret_hash: credentials.secret_hash(),
        name: body.name,
        client_id_url: body.client_id_url,
        client_uri: body.client_uri,
        redirect_uris: body.redirect_uris,
        scopes: body.scopes.unwrap_or_else(|| "atproto".to_owned()),
        client_type: match body.client_type {
            ClientType::Confidential => "confidential".to_owned(),
            ClientType::Public => "public".to_owned(),
        },
        allowed_origins: body.allowed_origins.unwrap_or_default(),
        rate_limit_capacity: body.rate_limit_capacity,
        rate_limit_refill_rate: body.rate_limit_refill_rate,
        created_by: admin.did.to_string(),
        parent_client_id: None,
        owner_did: None,
        is_active: true,
        created_at: now,
        updated_at: now,
    };
    api_clients::create(&app.db, &client).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::conflict("client_id_url already registered"),
        other => failed(other),
    })?;
    app.clients.reload(&app.db).await.map_err(failed)?;

    app.events.record(Event::ApiClientCreated {
        actor: admin.did.to_string(),
        name: client.name.clone(),
        client_key: client.client_key.clone(),
        client_id_url: client.client_id_url.clone(),
    });
    let answer = Answer {
        id: &client.id,
        client_key: &client.client_key,
        client_secret: credentials.reveal_secret(),
        name: &client.name,
        client_id_url: &client.client_id_url,
        client_type: body.client_type,
    };
    Ok(response::json(StatusCode::CREATED, &answer))
}

fn check_body(body: &Body) -> Result<(), Error> {
    check::text("name", &body.name)?;
    check::web_url("client_id_url", &body.client_id_url)?;
    check::web_url("client_uri", &body.client_uri)?;
    check::redirect_uris(&body.redirect_uris)?;
    body.scopes.as_deref().map_or(Ok(()), check::scopes)?;
    body.allowed_origins.as_deref().map_or(Ok(()), check::origins)?;
    body.rate_limit_capacity.map_or(Ok(()), check::capacity)?;
    body.rate_limit_refill_rate.map_or(Ok(()), check::refill_rate)
}
