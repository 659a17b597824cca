//! `createSpace`, `getSpace`, `updateSpace`, `deleteSpace`, `listSpaces`.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::settings::{self, SettingsBody, config_json};
use super::{created, input};
use crate::app::App;
use belvedere_instance::spaces::{NewSpace, SpaceQuery, Viewer};
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_storage::store::spaces::space::SpaceRow;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateBody {
    /// `type` until R10.
    space_type: Option<String>,
    r#type: Option<String>,
    skey: Option<String>,
    #[serde(flatten)]
    settings: SettingsBody,
}

/// `POST createSpace`: the caller becomes the administrator of the space and a member with all rights.
pub async fn create(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: CreateBody = input::body(&request)?;
    let kind = body.space_type.or(body.r#type).ok_or_else(|| input::invalid("type and skey are required"))?;
    let kind = Nsid::try_from(kind.as_str()).ok().filter(|nsid| nsid.as_str() == kind);
    let kind = kind.ok_or_else(|| input::invalid("type must be an NSID whose domain is in lower case"))?;
    let skey = body.skey.map(|skey| RecordKey::try_from(skey.as_str())).transpose();
    let skey = skey.map_err(|_| input::invalid("skey is not a record key"))?;
    let settings = body.settings.of_new()?;
    let uri = app.spaces.create(&viewer, NewSpace { kind, skey, settings }).await?;
    Ok(response::json(created(&request), &json!({ "uri": uri.to_string() })))
}

/// `GET getSpace?space=`
pub async fn get(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let space = app.spaces.get(&input::space(&request)?, &viewer).await?;
    Ok(response::json(StatusCode::OK, &view(&space)))
}

/// `POST updateSpace`
pub async fn update(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let space = settings::change(&app, &viewer, &request).await?;
    Ok(response::json(StatusCode::OK, &view(&space)))
}

#[derive(Deserialize)]
struct DeleteBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
}

/// `POST deleteSpace`
pub async fn delete(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: DeleteBody = input::body(&request)?;
    app.spaces.delete(&body.space, &viewer).await?;
    Ok(response::json(StatusCode::OK, &json!({ "success": true })))
}

/// `GET listSpaces`: the caller's own spaces. `did` filters by the authority; with the caller's own DID it filters nothing,
/// because older clients mean the member by it.
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let authority: Option<Did> = input::optional(&request, "did")?;
    let own = viewer.account()?.did.clone();
    let kind = match input::optional(&request, "spaceType")? {
        Some(kind) => Some(kind),
        None => input::optional(&request, "type")?,
    };
    let query = SpaceQuery {
        kind,
        authority: authority.filter(|did| *did != own),
        after: input::optional(&request, "cursor")?,
        limit: input::limit(&request, 50, 100)?,
    };
    let found = app.spaces.list(&viewer, &query).await?;
    let cursor =
        found.last().filter(|_| found.len() == query.limit as usize).map(|space| space.uri.to_string());
    let spaces: Vec<Value> = found
        .iter()
        .map(|space| json!({ "uri": space.uri.to_string(), "isOwner": space.is_hosted && space.creator == own }))
        .collect();
    let mut answer = json!({ "spaces": spaces });
    if let Some(cursor) = cursor {
        answer["cursor"] = cursor.into();
    }
    Ok(response::json(StatusCode::OK, &answer))
}

/// A space in the form of both generations: the fields of R10, and the objects of the one before.
fn view(space: &SpaceRow) -> Value {
    let SpaceRow { uri, creator, settings, rev, created_at, updated_at, .. } = space;
    let config = config_json(settings);
    let mut view = json!({
        "uri": uri.to_string(),
        "space": {
            "did": uri.did.as_str(), "authority_did": uri.did.as_str(), "creator_did": creator.as_str(),
            "type": uri.kind.as_str(), "skey": uri.skey.as_str(), "display_name": settings.display_name,
            "description": settings.description, "config": settings.config.as_json(),
            "revision": rev.map(|rev| rev.to_string()), "created_at": created_at, "updated_at": updated_at,
        },
    });
    for field in ["readPolicy", "writePolicy", "appAccess"] {
        view[field] = config[field].clone();
    }
    view["config"] = config;
    view
}
