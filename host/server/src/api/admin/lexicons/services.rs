//! `GET /admin/lexicons/{id}/services`: the services of this instance whose callers may call a method.

use std::collections::HashSet;
use std::sync::Arc;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_instance::service_identity::AccessMode;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::service_entries::{self, EntryRow};
use belvedere_web::http::Request;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<Vec<EntryRow>> {
    let id = request.param("id");
    // The domain of an NSID has no letter case, and bindings are stored in lower case.
    let nsid = Nsid::try_from(id).map_or_else(|_| id.to_owned(), |nsid| nsid.to_string());
    let bound = service_entries::all_xrpcs(&app.db).await?;
    let bound: HashSet<i64> =
        bound.into_iter().filter(|(_, of)| *of == nsid).map(|(entry, _)| entry).collect();
    let rows = service_entries::list(&app.db).await?.into_iter();
    let granting = rows.filter(|row| match AccessMode::from_stored(&row.access_mode) {
        AccessMode::All => true,
        AccessMode::Allowlist => bound.contains(&row.id),
        AccessMode::Disabled => false,
    });
    Ok(Json(granting.collect()))
}
