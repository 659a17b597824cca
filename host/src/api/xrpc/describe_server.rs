//! `GET /xrpc/com.atproto.server.describeServer`: identifies this server. Public, without a client key
//! (admin-api.md §20).

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::settings::{POLICY_URI, TOS_URI};

pub async fn handle(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let mut links = Map::new();
    for (name, key) in [("privacyPolicy", POLICY_URI), ("termsOfService", TOS_URI)] {
        if let Some(address) = app.settings.get(key) {
            links.insert(name.to_owned(), Value::String(address));
        }
    }
    // Accounts live elsewhere: there is no domain to make one under.
    let answer = json!({ "did": app.identity.did, "availableUserDomains": [], "links": links });
    Ok(response::json(StatusCode::OK, &answer))
}
