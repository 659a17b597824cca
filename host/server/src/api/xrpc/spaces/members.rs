//! `putMember`, `addMember`, `removeMember`, `listMembers`.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{created, input};
use crate::api::body::or_default;
use crate::app::App;
use belvedere_instance::spaces::{NamedMember, Viewer};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::{MemberAccess, Readable};
use belvedere_storage::store::spaces::members::IfMember;
use belvedere_web::http::{Error, Request, Response, response};

/// The largest page of a list.
const MAX_PAGE: u32 = 1_000;

/// A member as a body names it: an account, or a space whose members are included.
fn named(text: &str) -> Result<NamedMember, Error> {
    text.parse().map_err(|error| input::invalid(format!("did: {error}")))
}

/// A member in answers: the flags, and the word of the older generation.
pub fn view(member: &str, access: MemberAccess) -> Value {
    let mut view = json!({ "did": member, "read": access.reads != Readable::Nothing, "write": access.writes,
        "access": access.word() });
    if access.reads == Readable::Own {
        view["readSelf"] = true.into();
    }
    view
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PutBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    did: String,
    read: bool,
    write: bool,
    /// Limits reading to the member's own records.
    #[serde(default, deserialize_with = "or_default")]
    read_self: bool,
}

/// `POST putMember`: both flags replace those that the member had.
pub async fn put(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: PutBody = input::body(&request)?;
    let access = MemberAccess::of_flags(body.read, body.write, body.read_self);
    let member = named(&body.did)?;
    app.spaces.put_member(&body.space, &viewer, &member, access, IfMember::Replace).await?;
    Ok(response::json(created(&request), &json!({ "member": view(&body.did, access) })))
}

#[derive(Deserialize)]
struct AddBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    did: String,
    access: Option<String>,
}

/// `POST addMember`: the older form of `putMember`. In R8 it always gave both rights, so without a word it does.
pub async fn add(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: AddBody = input::body(&request)?;
    let access = match body.access.as_deref() {
        None => MemberAccess::CREATOR,
        Some(word) => MemberAccess::of_word(word)
            .ok_or_else(|| input::invalid("access must be read, read_self, write or none"))?,
    };
    let member = named(&body.did)?;
    app.spaces.put_member(&body.space, &viewer, &member, access, IfMember::Keep).await?;
    Ok(response::json(created(&request), &json!({ "member": view(&body.did, access) })))
}

#[derive(Deserialize)]
struct RemoveBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    did: String,
}

/// `POST removeMember`
pub async fn remove(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: RemoveBody = input::body(&request)?;
    app.spaces.remove_member(&body.space, &viewer, &named(&body.did)?).await?;
    Ok(response::json(StatusCode::OK, &json!({ "success": true })))
}

/// `GET listMembers?space=&limit=&cursor=`: all accounts, also those that are members through another space.
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let limit = input::limit(&request, MAX_PAGE, MAX_PAGE)?;
    let after = request.query("cursor").unwrap_or_default();
    let found = app.spaces.members(&input::space(&request)?, &viewer, &after, limit).await?;
    let members: Vec<Value> = found.iter().map(|(did, access)| view(did.as_str(), *access)).collect();
    let mut answer = json!({ "members": members });
    if let Some((last, _)) = found.last().filter(|_| found.len() == limit as usize) {
        answer["cursor"] = last.as_str().into();
    }
    Ok(response::json(StatusCode::OK, &answer))
}
