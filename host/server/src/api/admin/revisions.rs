//! The common part of revisions of scripts and of lexicons.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_storage::store::revisions::{self, FullRevision, RevisionRow, Subject};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{View}s")]
pub struct Revisions<View> {
    revisions: Vec<View>,
}

/// All revisions of the subject that the path names, newest first, without their texts.
pub(super) async fn list<View>(app: &App, of: Subject, request: &Request) -> JsonResult<Revisions<View>>
where
    View: From<RevisionRow>,
{
    let rows = revisions::list(&app.db, of, request.param("id")).await?;
    if rows.is_empty() {
        return Err(Error::not_found(format!("{} not found", of.as_str())));
    }
    Ok(Json(Revisions { revisions: rows.into_iter().map(View::from).collect() }))
}

/// The revision that the path names.
pub(super) async fn get(app: &App, of: Subject, request: &Request) -> Result<FullRevision, Error> {
    let not_found = || Error::not_found(format!("the {} has no such revision", of.as_str()));
    let revision = request.param("revision").parse().map_err(|_| not_found())?;
    revisions::get(&app.db, of, request.param("id"), revision).await?.ok_or_else(not_found)
}
