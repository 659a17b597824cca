//! `POST /admin/users/transfer-super`: makes another user the super user. Only the super user in person may; it keeps the
//! permissions that it holds by name.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::not_found;
use super::view::UserView;
use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::users;

#[derive(Deserialize)]
struct Body {
    target_user_id: String,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let Body { target_user_id: to } = request.json()?;
    if to == admin.user_id {
        return Err(Error::bad_request("you are the super user already"));
    }
    if !users::transfer_super(&app.db, &admin.user_id, &to).await? {
        return Err(not_found());
    }
    app.changed(Topic::Admins).await?;
    let (actor, from) = (admin.did.to_string(), admin.user_id);
    app.events.record(Event::UserSuperTransferred { actor, from, to: to.clone() });
    let row = users::get(&app.db, &to).await?.ok_or_else(not_found)?;
    Ok(response::json(StatusCode::OK, &UserView::from(row)))
}
