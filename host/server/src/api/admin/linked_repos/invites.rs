//! Creates, lists and revokes invites: links with which the owner of a repo authorizes a grant. Only the link has the
//! token; its hash is stored.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::admin::linked_repos::grant;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::sha256_hex;
use belvedere_storage::store::linked_repos::{self, InviteRow};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Invites {
    invites: Vec<Invite>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Invite {
    invite_id: String,
    expires_at: Timestamp,
}

/// `GET /admin/linked-repos/{id}/invites`: the links that are still valid.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Invites> {
    let grant = grant(&app, request.param("id")).await?;
    let rows = linked_repos::invites(&app.db, &grant.id, app.clock.now()).await?;
    let invite = |row: InviteRow| Invite { invite_id: row.id, expires_at: row.expires_at };
    Ok(Json(Invites { invites: rows.into_iter().map(invite).collect() }))
}

/// Default lifetime of an invite (service.md, Limits).
const DEFAULT_SECONDS: f64 = 7.0 * 86_400.0;
/// Allowed lifetimes of an invite (service.md, Limits).
const ALLOWED_SECONDS: std::ops::RangeInclusive<f64> = 60.0..=2_592_000.0;

/// Random bytes of a token: too many to guess.
const TOKEN_BYTES: usize = 32;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct NewInvite {
    /// Seconds. JSON has one type of number: `86400.0` is one too.
    expires_in: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InviteLink {
    invite_url: String,
    expires_at: Timestamp,
}

/// `POST /admin/linked-repos/{id}/invite`: creates a link with which the owner authorizes a grant.
pub async fn create(app: Arc<App>, _admin: Admin, request: WithBody<NewInvite>) -> JsonResult<InviteLink> {
    let grant = grant(&app, request.param("id")).await?;
    let body = request.json_or_default()?;
    let seconds = body.expires_in.unwrap_or(DEFAULT_SECONDS);
    if !ALLOWED_SECONDS.contains(&seconds) {
        return Err(Error::bad_request("expires_in must be 60 to 2592000 seconds"));
    }
    let token = URL_SAFE_NO_PAD.encode(app.random.bytes::<TOKEN_BYTES>());
    let invite = InviteRow {
        id: sha256_hex(token.as_bytes()),
        grant_id: grant.id,
        // A fraction of a second is dropped.
        expires_at: app.clock.now().plus_seconds(seconds as i64),
    };
    linked_repos::invite(&app.db, &invite).await?;
    let invite_url = format!("{}/auth/linked-repo/start?token={token}", app.access.origins.primary());
    Ok(Json(InviteLink { invite_url, expires_at: invite.expires_at }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InviteRevoked {
    revoked: bool,
}

/// `DELETE /admin/linked-repos/{id}/invites/{invite_id}`: revokes a link.
pub async fn delete(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<InviteRevoked> {
    let (id, invite, now) = (request.param("id"), request.param("invite_id"), app.clock.now());
    if !linked_repos::revoke_invite(&app.db, id, invite, now).await? {
        return Err(Error::not_found("invite not found"));
    }
    Ok(Json(InviteRevoked { revoked: true }))
}
