//! `/admin/api-clients`: registers, lists, changes and deletes API clients.

pub mod auth_key;
pub mod usage;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::body::or_default;
use crate::api::clients::{CarriedCredentials, ClientType, NewClient, check};
use crate::api::input::{WithBody, WithQuery};
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::Patch;
use belvedere_storage::store::api_clients::{self, ApiClientPatch, ApiClientRow};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiClient {
    id: String,
    client_key: String,
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    scopes: String,
    client_type: String,
    allowed_origins: Vec<String>,
    rate_limit_capacity: Option<i64>,
    rate_limit_refill_rate: Option<f64>,
    is_active: bool,
    created_by: String,
    parent_client_id: Option<String>,
    owner_did: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The last call of a method, to the minute. Null before the first.
    last_used_at: Option<Timestamp>,
    /// Whole tokens in its bucket, on the host that answers. Null for an inactive application.
    tokens: Option<u64>,
    /// Calls of the last 24 hours that this host has refused for their rate (429), since its start at most.
    rate_limited: u64,
}

impl ApiClient {
    fn new(app: &App, row: ApiClientRow) -> Self {
        let recent = app.access.client_usage.total(&row.id, app.clock.now());
        Self {
            tokens: app.access.tokens_of(&row.id).map(|(tokens, _)| tokens),
            rate_limited: recent.rate_limited,
            last_used_at: row.last_used_at,
            id: row.id,
            client_key: row.client_key,
            name: row.name,
            client_id_url: row.client_id_url,
            client_uri: row.client_uri,
            redirect_uris: row.redirect_uris,
            scopes: row.scopes,
            client_type: row.client_type,
            allowed_origins: row.allowed_origins,
            rate_limit_capacity: row.rate_limit_capacity,
            rate_limit_refill_rate: row.rate_limit_refill_rate,
            is_active: row.is_active,
            created_by: row.created_by,
            parent_client_id: row.parent_client_id,
            owner_did: row.owner_did,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ClientQuery {
    parent_id: Option<String>,
}

/// `GET /admin/api-clients`: the applications that may call XRPC, newest first; with `parent_id` only the children of
/// that one.
pub async fn list(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<ClientQuery>,
) -> JsonResult<Vec<ApiClient>> {
    let parent = request.parameters()?.parent_id.filter(|p| !p.is_empty());
    let rows = api_clients::list(&app.db, parent.as_deref()).await?;
    Ok(Json(rows.into_iter().map(|row| ApiClient::new(&app, row)).collect()))
}

/// `GET /admin/api-clients/{id}`: an application.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ApiClient> {
    let row = api_clients::get(&app.db, request.param("id")).await?;
    row.map(|row| Json(ApiClient::new(&app, row))).ok_or_else(|| Error::not_found("api client not found"))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewApiClient {
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    scopes: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    client_type: ClientType,
    #[serde(default)]
    allowed_origins: Option<Vec<String>>,
    rate_limit_capacity: Option<i64>,
    rate_limit_refill_rate: Option<f64>,
    /// Absent: it gets new ones.
    credentials: Option<CarriedCredentials>,
    /// For an application that another one has registered for one of its users. Absent: it has no parent.
    parent: Option<ParentClient>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ParentClient {
    /// That of the application that has registered it.
    client_key: String,
    /// The user for whom it was registered.
    #[schemars(extend("format" = "did"))]
    owner_did: String,
}

impl ParentClient {
    /// The parent's id, and its owner.
    async fn checked(self, app: &App) -> Result<(String, String), Error> {
        let Self { client_key, owner_did } = self;
        let owner = Did::try_from(owner_did.as_str())
            .map_err(|_| Error::bad_request("parent: owner_did is not a DID"))?;
        let rows = api_clients::list(&app.db, None).await?;
        let parent = rows.into_iter().find(|row| row.client_key == client_key);
        let parent = parent.filter(|row| row.parent_client_id.is_none()).ok_or_else(|| {
            Error::bad_request("parent: client_key must be that of an application without a parent")
        })?;
        Ok((parent.id, owner.to_string()))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CreatedClient {
    id: String,
    client_key: String,
    /// Only confidential clients have one; that of another server is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    name: String,
    client_id_url: String,
    client_type: ClientType,
}

/// `POST /admin/api-clients`: registers an application. Its key works when the answer is sent; its secret is shown
/// once.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewApiClient>,
) -> JsonResult<CreatedClient, 201> {
    let body = request.json()?;
    let client_type = body.client_type;
    let parent = match body.parent {
        Some(parent) => Some(parent.checked(&app).await?),
        None => None,
    };
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
        parent,
        credentials: body.credentials,
    };
    let (client, credentials) = new.register(&app).await?;
    app.events.record(Event::ApiClientCreated {
        actor: admin.did.to_string(),
        name: client.name.clone(),
        client_key: client.client_key.clone(),
        client_id_url: client.client_id_url.clone(),
        parent_client_id: client.parent_client_id.clone(),
    });
    Ok(Json(CreatedClient {
        client_secret: credentials.reveal_secret().map(str::to_owned),
        id: client.id,
        client_key: client.client_key,
        name: client.name,
        client_id_url: client.client_id_url,
        client_type,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ApiClientChange {
    name: Option<String>,
    client_uri: Option<String>,
    redirect_uris: Option<Vec<String>>,
    scopes: Option<String>,
    #[serde(default)]
    allowed_origins: Patch<Vec<String>>,
    /// Null restores the instance's default; also in the next field.
    #[serde(default)]
    rate_limit_capacity: Patch<i64>,
    #[serde(default)]
    rate_limit_refill_rate: Patch<f64>,
    is_active: Option<bool>,
}

/// `PUT /admin/api-clients/{id}`: changes the fields of an application that are sent. Deactivating a client affects its
/// children too.
pub async fn update(app: Arc<App>, admin: Admin, request: WithBody<ApiClientChange>) -> EmptyResult {
    let id = request.param("id");
    let body = request.json()?;
    check_body(&body)?;
    let scopes = body.scopes.as_deref().map(check::scopes).transpose()?;
    let patch = ApiClientPatch {
        name: body.name,
        client_uri: body.client_uri,
        redirect_uris: body.redirect_uris,
        scopes,
        allowed_origins: body.allowed_origins,
        rate_limit_capacity: body.rate_limit_capacity,
        rate_limit_refill_rate: body.rate_limit_refill_rate,
        is_active: body.is_active,
    };
    api_clients::update(&app.db, id, &patch, app.clock.now())
        .await?
        .ok_or_else(|| Error::not_found("api client not found"))?;
    app.changed(Topic::ApiClient(id.to_owned())).await?;
    app.events.record(Event::ApiClientUpdated { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(Empty)
}

fn check_body(body: &ApiClientChange) -> Result<(), Error> {
    body.name.as_deref().map_or(Ok(()), |name| check::text("name", name))?;
    body.client_uri.as_deref().map_or(Ok(()), |uri| check::web_url("client_uri", uri))?;
    body.redirect_uris.as_deref().map_or(Ok(()), check::redirect_uris)?;
    if let Patch::Set(origins) = &body.allowed_origins {
        check::origins(origins)?;
    }
    if let Patch::Set(capacity) = body.rate_limit_capacity {
        check::capacity(capacity)?;
    }
    if let Patch::Set(rate) = body.rate_limit_refill_rate {
        check::refill_rate(rate)?;
    }
    Ok(())
}

/// `DELETE /admin/api-clients/{id}`: deletes an application and its children at once. Their sessions are revoked at the
/// authorization servers in the background.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    if !app.sessions.vault.delete_client(id).await? {
        return Err(Error::not_found("api client not found"));
    }
    app.changed(Topic::ApiClient(id.to_owned())).await?;
    app.events.record(Event::ApiClientDeleted { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(Empty)
}
