//! `/admin/service-entries/{id}/xrpcs`: the methods that a service with the access mode `allowlist` permits.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::{entry_id, not_found};
use crate::access::Admin;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::service_entries;
use belvedere_web::http::{Error, Request, Response, response};

/// Methods of one service, which every host keeps in memory.
const MAX_METHODS: i64 = 2_000;

/// `GET /admin/service-entries/{id}/xrpcs`: sorted; empty for an unknown entry.
pub async fn list(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let nsids = service_entries::xrpcs(&app.db, entry_id(&request)?).await?;
    Ok(response::json(StatusCode::OK, &nsids))
}

#[derive(Deserialize)]
struct Body {
    lexicon_ids: Vec<String>,
}

/// The methods that a request names, in the form in which calls name them. Their lexicons may be uploaded later.
fn methods(request: &Request) -> Result<Vec<String>, Error> {
    let Body { lexicon_ids } = request.json()?;
    if lexicon_ids.len() > usize::try_from(MAX_METHODS).unwrap_or(usize::MAX) {
        return Err(too_many());
    }
    let parsed = lexicon_ids.iter().map(|text| {
        let nsid = Nsid::try_from(text.as_str()).map_err(|_| {
            let shown: String = text.chars().take(80).collect();
            Error::bad_request(format!("{shown:?} is not an NSID"))
        })?;
        Ok(nsid.to_string())
    });
    parsed.collect()
}

/// `POST /admin/service-entries/{id}/xrpcs`
pub async fn create(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let (id, nsids) = (entry_id(&request)?, methods(&request)?);
    match service_entries::bind_xrpcs(&app.db, id, &nsids, MAX_METHODS).await? {
        None => return Err(not_found()),
        Some(false) => return Err(too_many()),
        Some(true) => {}
    }
    changed(&app, &admin, id, json!({ "bound": nsids })).await
}

/// `DELETE /admin/service-entries/{id}/xrpcs`: methods that are not bound are ignored.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let (id, nsids) = (entry_id(&request)?, methods(&request)?);
    service_entries::unbind_xrpcs(&app.db, id, &nsids).await?;
    changed(&app, &admin, id, json!({ "unbound": nsids })).await
}

async fn changed(app: &App, admin: &Admin, id: i64, change: serde_json::Value) -> Result<Response, Error> {
    app.changed(Topic::ServiceIdentity).await?;
    let event = Event::ServiceEntryUpdated { actor: admin.did.to_string(), id, change };
    app.events.record(event);
    Ok(response::empty(StatusCode::NO_CONTENT))
}

fn too_many() -> Error {
    Error::bad_request(format!("at most {MAX_METHODS} methods of one service"))
}
