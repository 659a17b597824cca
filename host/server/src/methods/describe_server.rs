//! `com.atproto.server.describeServer`: identifies this server (admin-api.md §20).

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::app::App;
use belvedere_instance::settings::{POLICY_URI, TOS_URI};
use belvedere_instance::xrpc::Answer;

pub fn answer(app: &App) -> Answer {
    let mut links = Map::new();
    for (name, key) in [("privacyPolicy", POLICY_URI), ("termsOfService", TOS_URI)] {
        if let Some(address) = app.settings.get(key) {
            links.insert(name.to_owned(), Value::String(address));
        }
    }
    // Accounts live elsewhere: there is no domain to make one under.
    let body =
        json!({ "did": app.service_identity.did().as_str(), "availableUserDomains": [], "links": links });
    Answer::json(StatusCode::OK, body.to_string().into())
}
