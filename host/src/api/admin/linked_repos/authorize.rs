//! `POST /admin/linked-repos/{id}/authorize`: where the account's owner, who is the admin here, goes to agree.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::grant;
use crate::access::{Admin, Sender};
use crate::app::App;
use crate::atproto::Did;
use crate::http::{Error, Request, Response, response};
use crate::oauth::{AuthorizationError, FlowError, Goal, GrantGoal};

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let grant = grant(&app, request.param("id")).await?;
    let did = grant.did.as_deref().and_then(|did| Did::try_from(did).ok());
    let did = did.ok_or_else(|| Error::bad_request("an open grant is authorized through an invite"))?;
    let goal = Goal {
        return_to: "/dashboard/".to_owned(),
        browser: None,
        grant: Some(GrantGoal { id: grant.id, invite: None }),
    };
    let origin = app.access.origins.of_host(request.headers());
    let sender = Sender::of(&app.access, &request);
    let begun = app.authorizations.begin(&did, &origin, &grant.scopes, goal, sender.tenant()).await;
    let url = begun.map_err(|error| {
        let refused = matches!(error, AuthorizationError::Flow(FlowError::Refused(..)));
        let status = if refused { StatusCode::BAD_REQUEST } else { StatusCode::BAD_GATEWAY };
        Error::new(status, error.to_string())
    })?;
    Ok(response::json(StatusCode::OK, &json!({ "authorize_url": url.as_str() })))
}
