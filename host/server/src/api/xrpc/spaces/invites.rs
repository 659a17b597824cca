//! `createInvite`, `acceptInvite`, `revokeInvite`, `listInvites` (spaces.md §10).

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{created, input};
use crate::api::body::or_default;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::spaces::{InviteRequest, Viewer};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::{MemberAccess, Readable};
use belvedere_storage::store::spaces::invites::InviteRow;
use belvedere_web::http::{Error, Request, Response, response};

/// The rights that an invite gives: a word, or the flags.
#[derive(Deserialize)]
#[serde(untagged)]
enum AccessBody {
    Word(String),
    #[serde(rename_all = "camelCase")]
    Flags {
        read: bool,
        write: bool,
        #[serde(default, deserialize_with = "or_default")]
        read_self: bool,
    },
}

impl AccessBody {
    fn read(&self) -> Result<MemberAccess, Error> {
        match self {
            Self::Word(word) => MemberAccess::of_word(word)
                .ok_or_else(|| input::invalid("access must be read, read_self, write or none")),
            Self::Flags { read, write, read_self } => Ok(MemberAccess::of_flags(*read, *write, *read_self)),
        }
    }
}

/// The rights in an answer, as flags.
fn access_json(access: MemberAccess) -> Value {
    json!({ "read": access.reads != Readable::Nothing, "write": access.writes })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    access: Option<AccessBody>,
    max_uses: Option<i64>,
    #[serde(default, deserialize_with = "time")]
    expires_at: Option<Timestamp>,
}

/// A time that may be absent or null, in RFC 3339.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    let Some(text) = text else { return Ok(None) };
    let malformed = |error| serde::de::Error::custom(format!("expiresAt: {error}"));
    Timestamp::parse(&text).map(Some).map_err(malformed)
}

/// `POST createInvite`: the token is shown in this answer only.
pub async fn create(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: CreateBody = input::body(&request)?;
    let access =
        body.access.map_or(Ok(MemberAccess::of_flags(true, false, false)), |access| access.read())?;
    let (max_uses, expires_at) = (body.max_uses, body.expires_at);
    let invite = InviteRequest { access, max_uses, expires_at };
    let made = app.spaces.create_invite(&body.space, &viewer, invite).await?;
    let answer = json!({
        "inviteId": made.id, "token": made.token, "access": access_json(access), "maxUses": max_uses,
        "expiresAt": expires_at,
    });
    Ok(response::json(created(&request), &answer))
}

#[derive(Deserialize)]
struct AcceptBody {
    token: String,
}

/// `POST acceptInvite`: the caller becomes a member.
pub async fn accept(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: AcceptBody = input::body(&request)?;
    let (uri, access) = app.spaces.accept_invite(&viewer, &body.token).await?;
    let answer = json!({ "uri": uri.to_string(), "access": access.word() });
    Ok(response::json(created(&request), &answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevokeBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    invite_id: String,
}

/// `POST revokeInvite`
pub async fn revoke(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: RevokeBody = input::body(&request)?;
    app.spaces.revoke_invite(&body.space, &viewer, &body.invite_id).await?;
    Ok(response::json(StatusCode::OK, &json!({ "success": true })))
}

/// `GET listInvites?space=&limit=&cursor=`: newest first.
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let limit = input::limit(&request, 50, 100)?;
    let cursor = request.query("cursor").filter(|cursor| !cursor.is_empty());
    let before = cursor.as_deref().map(|cursor| {
        let (time, id) = cursor.split_once(':')?;
        Some((Timestamp(time.parse().ok()?), id))
    });
    let before = match before {
        Some(None) => return Err(input::invalid("cursor is malformed")),
        Some(before) => before,
        None => None,
    };
    let rows = app.spaces.invites(&input::space(&request)?, &viewer, before, limit).await?;
    let invites: Vec<Value> = rows.iter().map(view).collect();
    let mut answer = json!({ "invites": invites });
    if let Some(last) = rows.last().filter(|_| rows.len() == limit as usize) {
        answer["cursor"] = format!("{}:{}", last.created_at.0, last.id).into();
    }
    Ok(response::json(StatusCode::OK, &answer))
}

fn view(row: &InviteRow) -> Value {
    json!({
        "id": row.id, "access": access_json(row.access), "maxUses": row.max_uses, "uses": row.uses,
        "expiresAt": row.expires_at, "revoked": row.revoked_at.is_some(), "createdBy": row.created_by,
        "createdAt": row.created_at,
    })
}
