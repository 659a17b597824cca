//! `PATCH /admin/users/{id}/permissions`: gives and takes permissions of another user. Keys of the user that list more than it holds
//! lose that at once.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::not_found;
use super::view::UserView;
use crate::access::{Admin, Permission};
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::users;

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    grant: Vec<String>,
    #[serde(default)]
    revoke: Vec<String>,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if id == admin.user_id {
        return Err(Error::forbidden("you can't change your own permissions"));
    }
    let body: Body = request.json()?;
    if let Some(name) = body.grant.iter().find(|name| body.revoke.contains(name)) {
        return Err(Error::bad_request(format!("{name} can't be both granted and revoked")));
    }
    let granted = admin.granting(body.grant.iter().map(String::as_str))?;
    let revoked = body.revoke.iter().map(|name| Permission::named(name).map(Permission::as_str));
    let revoked: Vec<&str> = revoked.collect::<Result<_, _>>()?;

    let Some(row) = users::set_permissions(&app.db, id, &granted, &revoked).await? else {
        return Err(match users::get(&app.db, id).await? {
            Some(_) => Error::forbidden("the super user's permissions can't be changed"),
            None => not_found(),
        });
    };
    app.changed(Topic::Admins).await?;
    app.events.record(Event::UserPermissionsUpdated {
        actor: admin.did.to_string(),
        id: row.id.clone(),
        granted: body.grant,
        revoked: body.revoke,
    });
    Ok(response::json(StatusCode::OK, &UserView::from(row)))
}
