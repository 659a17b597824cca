//! `/xrpc/com.atproto.label.queryLabels` and `subscribeLabels`: the labels of this instance, for everyone, once it has a DID and
//! a key for them (ADR 128).

mod query;
mod subscribe;

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::access::{PublicLimit, Sender};
use crate::app::App;
use belvedere_instance::service_identity::Labeler;
use belvedere_web::http::{Error, Request, Response};

const QUERY: &str = "com.atproto.label.queryLabels";
const SUBSCRIBE: &str = "com.atproto.label.subscribeLabels";

/// Whether a call is answered here. Without labels of this instance, a call with a session goes to its PDS as before.
pub(in crate::api) fn is_method(app: &App, request: &Request, nsid: &str) -> bool {
    let has_session = request.headers().contains_key(http::header::AUTHORIZATION);
    match nsid {
        SUBSCRIBE => true,
        QUERY => {
            *request.method() == Method::GET && (!has_session || app.service_identity.labeler().is_some())
        }
        _ => false,
    }
}

/// Answers a method for which [`is_method`] is true.
pub(in crate::api) async fn answer(app: Arc<App>, nsid: &str, request: Request) -> Result<Response, Error> {
    let sender = Sender::of(&app.access, &request);
    sender.pay(&PublicLimit::PAGE, &request)?;
    if *request.method() != Method::GET {
        return Err(Error::new(StatusCode::METHOD_NOT_ALLOWED, "this method is called with GET"));
    }
    let tenant = sender.tenant().clone();
    if nsid == QUERY {
        query::answer(&app, &tenant, &request).await
    } else {
        subscribe::answer(&app, &tenant, request)
    }
}

/// The instance as a labeler.
fn labeler(app: &App) -> Result<Labeler, Error> {
    app.service_identity.labeler().ok_or_else(|| {
        Error::new(
            StatusCode::NOT_IMPLEMENTED,
            "this server issues no labels: it has no public DID with a key #atproto_label",
        )
    })
}
