//! `/admin/domains`: manages the origins that the instance is reached by, each an OAuth client of its own.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_instance::oauth::origin_of;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::domains::{self, DomainRow};
use belvedere_web::http::{Error, Request};

/// `GET /admin/domains`: the origins of this instance.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<DomainRow>> {
    Ok(Json(domains::list(&app.db).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewDomain {
    url: String,
}

/// `POST /admin/domains`: adds an origin that the instance is reached by.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewDomain>) -> JsonResult<DomainRow, 201> {
    let NewDomain { url } = request.json()?;
    check(&url, app.identity.is_loopback)?;
    let now = app.clock.now();
    let domain =
        DomainRow { id: app.random.uuid(), url, is_primary: false, created_at: now, updated_at: now };
    domains::create(&app.db, &domain).await.map_err(|error| match error {
        StoreError::Conflict(_) => Error::bad_request("the domain is already registered"),
        other => Error::from(other),
    })?;
    app.changed(Topic::Domains).await?;
    app.events.record(Event::DomainCreated {
        actor: admin.did.to_string(),
        url: domain.url.clone(),
        id: domain.id.clone(),
    });
    Ok(Json(domain))
}

/// Checks for an origin as browsers write it, with https unless the instance itself is on loopback.
fn check(url: &str, loopback: bool) -> Result<(), Error> {
    if origin_of(url).as_deref() != Some(url) {
        return Err(Error::bad_request("url must be an origin: scheme and host, no path, no trailing slash"));
    }
    if !url.starts_with("https://") && !loopback {
        return Err(Error::bad_request("url must begin with https://"));
    }
    Ok(())
}

/// `POST /admin/domains/{id}/primary`: makes a domain the primary one instead of the previous one, in one transaction.
/// Links that the server makes by itself begin with the primary, and requests whose Host names none of the domains are
/// taken for requests to it.
pub async fn primary(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    if !domains::set_primary(&app.db, id, app.clock.now()).await? {
        return Err(Error::not_found("domain not found"));
    }
    app.changed(Topic::Domains).await?;
    let url = domains::list(&app.db).await?.into_iter().find(|row| row.id == id);
    let url = url.map(|row| row.url).unwrap_or_default();
    app.events.record(Event::DomainPrimaryChanged { actor: admin.did.to_string(), url, id: id.to_owned() });
    Ok(Empty)
}

/// `DELETE /admin/domains/{id}`: removes an origin.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    let url = domains::list(&app.db).await?.into_iter().find(|row| row.id == id);
    let url = url.ok_or_else(|| Error::not_found("domain not found"))?.url;
    if url == app.identity.origin {
        return Err(Error::bad_request("the domain of PUBLIC_URL can't be deleted"));
    }
    match domains::delete(&app.db, id).await? {
        None => return Err(Error::not_found("domain not found")),
        Some(false) => return Err(Error::bad_request("the primary domain can't be deleted")),
        Some(true) => {}
    }
    app.changed(Topic::Domains).await?;
    app.events.record(Event::DomainDeleted { actor: admin.did.to_string(), url, id: id.to_owned() });
    Ok(Empty)
}
