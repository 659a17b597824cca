//! `/admin/linked-repos`: repos whose owners let the instance write to them.

pub mod authorize;
pub mod create;
pub mod delete;
pub mod invites;
pub mod list;
pub mod update;
mod view;

use crate::app::App;
use crate::http::Error;
use crate::store::linked_repos::{self, GrantRow};

async fn grant(app: &App, id: &str) -> Result<GrantRow, Error> {
    let row = linked_repos::get(&app.db, id).await?;
    row.ok_or_else(|| Error::not_found("linked repo not found"))
}

/// Triggers that a grant is bound to.
///
/// # Errors
/// 400 for what is none.
fn check_scripts(scripts: &[String]) -> Result<(), Error> {
    match scripts.iter().find(|name| !crate::repos::linked::is_trigger(name)) {
        Some(name) => Err(Error::bad_request(format!("scripts: {name:?} is not a trigger"))),
        None => Ok(()),
    }
}
