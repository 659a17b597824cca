//! `POST /admin/api-clients`: register an application. Its key works from the answer on; its secret is shown once.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::clients::{ClientType, NewClient};
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};

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
    let client_type = body.client_type;
    let new = NewClient {
        name: body.name,
        client_id_url: body.client_id_url,
        client_uri: body.client_uri,
        redirect_uris: body.redirect_uris,
        scopes: body.scopes,
        client_type,
        allowed_origins: body.allowed_origins.unwrap_or_default(),
        rate_limit_capacity: body.rate_limit_capacity,
        rate_limit_refill_rate: body.rate_limit_refill_rate,
        created_by: admin.did.to_string(),
        parent: None,
    };
    let (client, credentials) = new.register(&app).await?;
    app.events.record(Event::ApiClientCreated {
        actor: admin.did.to_string(),
        name: client.name.clone(),
        client_key: client.client_key.clone(),
        client_id_url: client.client_id_url.clone(),
        parent_client_id: None,
    });
    let answer = Answer {
        id: &client.id,
        client_key: &client.client_key,
        client_secret: credentials.reveal_secret(),
        name: &client.name,
        client_id_url: &client.client_id_url,
        client_type,
    };
    Ok(response::json(StatusCode::CREATED, &answer))
}
