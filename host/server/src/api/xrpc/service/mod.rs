//! Methods of the service's own namespace (`SERVICE_NAMESPACE`), with which third parties manage their API clients, and
//! linked accounts that several users write for.

pub mod delegation;

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::ClientUser;
use crate::access::scopes::{self, NotGranted};
use crate::api::clients::{ClientType, NewClient};
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::api_clients::{self, ApiClientRow};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientView {
    id: String,
    client_key: String,
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    client_type: String,
    scopes: String,
    allowed_origins: Vec<String>,
    is_active: bool,
    created_at: Timestamp,
}

impl From<ApiClientRow> for ClientView {
    fn from(row: ApiClientRow) -> Self {
        Self {
            id: row.id,
            client_key: row.client_key,
            name: row.name,
            client_id_url: row.client_id_url,
            client_uri: row.client_uri,
            redirect_uris: row.redirect_uris,
            client_type: row.client_type,
            scopes: row.scopes,
            allowed_origins: row.allowed_origins,
            is_active: row.is_active,
            created_at: row.created_at,
        }
    }
}

/// The client with this id, if the caller owns it.
///
/// # Errors
/// 404 for any other client.
async fn owned_client(app: &App, caller: &ClientUser, id: &str) -> Result<ApiClientRow, Error> {
    let row = api_clients::get(&app.db, id).await?;
    row.filter(|row| row.owner_did.as_deref() == Some(caller.did.as_str()))
        .ok_or_else(|| Error::not_found("API client not found"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateApiClientBody {
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

/// `POST /xrpc/dev.service.createApiClient`: registers an application of the caller, as a child of the client that they
/// are logged in with. Its permissions never exceed its parent's.
pub async fn create_api_client(
    app: Arc<App>,
    caller: ClientUser,
    request: Request,
) -> Result<Response, Error> {
    if caller.client.parent.is_some() {
        return Err(Error::forbidden("Child clients cannot create API clients"));
    }
    let body: CreateApiClientBody = request.json().map_err(|_| Error::bad_request("invalid request body"))?;
    let client_type = match body.client_type.as_deref() {
        None | Some("confidential") => ClientType::Confidential,
        Some("public") => ClientType::Public,
        Some(_) => return Err(Error::bad_request("Invalid client_type")),
    };
    let scopes = body.scopes.unwrap_or_else(|| "atproto".to_owned());
    scopes::check_within(app.access.vault.effective_scopes(), &caller.client.scopes, &scopes).await.map_err(
        |error| match error {
            NotGranted::Store(error) => Error::from(error),
            NotGranted::NotAllowed(scope) => {
                Error::bad_request(format!("scope '{scope}' is not allowed for the parent client"))
            }
            NotGranted::NoAtproto => Error::bad_request("scopes must include atproto"),
            NotGranted::Malformed(error) => Error::bad_request(error.to_string()),
        },
    )?;
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
        credentials: None,
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

#[derive(Deserialize)]
struct DeleteApiClientBody {
    id: String,
}

/// `POST /xrpc/dev.service.deleteApiClient`: deletes the client, its keys and its sessions. The sessions are revoked at
/// the authorization servers in the background.
pub async fn delete_api_client(
    app: Arc<App>,
    caller: ClientUser,
    request: Request,
) -> Result<Response, Error> {
    caller.require_top_level()?;
    let DeleteApiClientBody { id } =
        request.json().map_err(|_| Error::bad_request("invalid request body"))?;
    owned_client(&app, &caller, &id).await?;
    app.sessions.vault.delete_client(&id).await?;
    app.changed(Topic::ApiClient(id.clone())).await?;
    app.events.record(Event::ApiClientDeleted { actor: caller.did.to_string(), id });
    Ok(response::json(StatusCode::OK, &json!({})))
}

/// `GET /xrpc/dev.service.getApiClient?id=`
pub async fn get_api_client(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    caller.require_top_level()?;
    let id = request.query("id").ok_or_else(|| Error::bad_request("id is missing"))?;
    let client = ClientView::from(owned_client(&app, &caller, &id).await?);
    Ok(response::json(StatusCode::OK, &json!({ "client": client })))
}

/// `GET /xrpc/dev.service.listApiClients`: the caller's own clients, newest first.
pub async fn list_api_clients(
    app: Arc<App>,
    caller: ClientUser,
    _request: Request,
) -> Result<Response, Error> {
    caller.require_top_level()?;
    let rows = api_clients::list_owned(&app.db, caller.did.as_str()).await?;
    let clients: Vec<ClientView> = rows.into_iter().map(ClientView::from).collect();
    Ok(response::json(StatusCode::OK, &json!({ "clients": clients })))
}

#[derive(Deserialize)]
struct CreateTicketBody {
    /// The subscription or query that is connected to.
    method: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TicketAnswer {
    ticket: String,
    expires_at: Timestamp,
}

/// `POST /xrpc/{namespace}.createTicket`: a ticket with which a browser opens a WebSocket of this user once.
pub async fn create_ticket(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    let body: CreateTicketBody = request.json()?;
    let method = Nsid::try_from(body.method.as_str());
    let method = method.map_err(|_| Error::bad_request("method must be the NSID of the method"))?;
    let (ticket, expires_at) = app.access.issue_ticket(&caller, &method);
    Ok(response::json(StatusCode::OK, &TicketAnswer { ticket, expires_at }))
}
