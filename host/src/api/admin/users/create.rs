//! `POST /admin/users`: makes a DID a user, with the permissions of a template and of a list, or with none.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::view::UserView;
use crate::access::{Admin, Template};
use crate::app::App;
use crate::atproto::Did;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::{StoreError, users};

#[derive(Deserialize)]
struct Body {
    did: String,
    template: Option<String>,
    permissions: Option<Vec<String>>,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let body: Body = request.json()?;
    let did = Did::try_from(body.did.as_str())
        .map_err(|_| Error::bad_request("did must be a DID, like did:plc:… or did:web:…"))?;
    if did == admin.did {
        return Err(Error::forbidden("you can't change your own permissions"));
    }
    let template = match &body.template {
        Some(name) => Template::parse(name)
            .map(Template::permissions)
            .ok_or_else(|| Error::bad_request(format!("{name} is not a template")))?,
        None => Vec::new(),
    };
    let names = template.iter().map(|permission| permission.as_str());
    let mut granted = admin.granting(names.chain(body.permissions.iter().flatten().map(String::as_str)))?;
    granted.sort_unstable();
    granted.dedup();

    let row = users::create(&app.db, &app.random.uuid(), did.as_str(), &granted, app.clock.now())
        .await
        .map_err(|error| match error {
            StoreError::Conflict(_) => Error::conflict(format!("{did} is a user already")),
            other => Error::from(other),
        })?;
    app.events.record(Event::UserCreated {
        actor: Some(admin.did.to_string()),
        did: row.did.clone(),
        template: body.template,
        permissions: row.permissions.clone(),
    });
    Ok(response::json(StatusCode::CREATED, &UserView::from(row)))
}
