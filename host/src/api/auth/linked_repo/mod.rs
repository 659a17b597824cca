//! `/auth/linked-repo/*`: the owner of a repo follows an invite.

pub mod complete;
pub mod info;
pub mod start;

use crate::app::App;
use crate::crypto::sha256_hex;
use crate::http::Error;
use crate::store::linked_repos::{self, GrantRow, InviteRow};

/// The invite of a link's token and its grant, if it is still good.
pub(in crate::api) async fn invited(app: &App, token: &str) -> Result<Option<(InviteRow, GrantRow)>, Error> {
    let id = sha256_hex(token.as_bytes());
    let invite = linked_repos::get_invite(&app.db, &id, app.clock.now()).await?;
    let Some(invite) = invite else { return Ok(None) };
    let grant = linked_repos::get(&app.db, &invite.grant_id).await?;
    Ok(grant.map(|grant| (invite, grant)))
}
