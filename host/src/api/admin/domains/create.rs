//! `POST /admin/domains`: the instance is reached by another origin from now on.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::view::DomainView;
use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::oauth::origin_of;
use crate::store::StoreError;
use crate::store::domains::{self, DomainRow};

#[derive(Deserialize)]
struct Body {
    url: String,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let Body { url } = request.json()?;
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
    Ok(response::json(StatusCode::CREATED, &DomainView::from(domain)))
}

/// An origin as browsers write it; with TLS, unless the instance is on loopback itself.
fn check(url: &str, loopback: bool) -> Result<(), Error> {
    if origin_of(url).as_deref() != Some(url) {
        return Err(Error::bad_request("url must be an origin: scheme and host, no path, no trailing slash"));
    }
    if !url.starts_with("https://") && !loopback {
        return Err(Error::bad_request("url must begin with https://"));
    }
    Ok(())
}
