//! `GET /admin/backfill/{id}/events`: the progress of a backfill, as server-sent events.

use std::sync::Arc;

use super::find;
use crate::access::Admin;
use crate::api::answer::{Built, Events};
use crate::api::streams;
use crate::app::App;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request};

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Built<Events>, Error> {
    let job = find(&app, request.param("id")).await?;
    let messages = app.backfill_feeds.follow(&Tenant::of_did(admin.did.as_str()), job);
    let messages = messages.map_err(streams::refused)?;
    Ok(streams::open(&app, &admin, &request, messages).into())
}
