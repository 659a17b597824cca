//! `POST /api/setup/identity` chooses the identity, and `GET /api/setup/rotation-key` gives the operator a copy of the
//! key that controls its DID.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::require_open;
use crate::access::Admin;
use crate::api::admin::service_identity::{checked, replace};
use crate::api::answer::{Binary, Built, Empty, EmptyResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::Mode;
use belvedere_web::http::{Error, Request, Response};

#[derive(Debug, Deserialize, JsonSchema)]
pub struct IdentityChoice {
    mode: Mode,
    attached_account_did: Option<String>,
}

/// `POST /api/setup/identity`: chooses the kind of identity, and makes the keys that it needs. To choose the same mode
/// again keeps its DID.
pub async fn choose(app: Arc<App>, admin: Admin, request: WithBody<IdentityChoice>) -> EmptyResult {
    let IdentityChoice { mode, attached_account_did } = request.json()?;
    let row = require_open(&app).await?;
    let kept = row.filter(|row| row.mode == mode.as_str());
    let mut did = kept.as_ref().and_then(|row| row.did.clone());
    if mode == Mode::AttachAccount && did != attached_account_did {
        did = None;
    }
    let change = checked(&app, mode, did.as_deref(), attached_account_did.as_deref())?;
    replace(&app, &admin, change).await?;
    Ok(Empty)
}

/// `GET /api/setup/rotation-key`: the key that controls the instance's did:plc, as the raw scalar, until the set-up is
/// complete.
pub async fn rotation_key(app: Arc<App>, admin: Admin, _request: Request) -> Result<Built<Binary>, Error> {
    require_open(&app).await?;
    let scalar = app.identity_setup.rotation_key().await?;
    let event = Event::RotationKeyExported { actor: admin.did.to_string() };
    app.events.record(event);
    let mut answer = Response::new(Bytes::copy_from_slice(&*scalar).into());
    *answer.status_mut() = StatusCode::OK;
    answer.headers_mut().extend([
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"rotation-key.bin\"")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]);
    Ok(answer.into())
}
