//! `/xrpc/com.atproto.label.queryLabels` and `subscribeLabels`: the labels of this instance, for everyone, once it has a DID and
//! a key for them (ADR 128).

mod subscribe;

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Method, StatusCode};

use super::{input, method};
use crate::access::{PublicLimit, Sender};
use crate::app::App;
use crate::methods::query_labels;
use belvedere_web::http::{Error, Request, Response};

pub const SUBSCRIBE: &str = "com.atproto.label.subscribeLabels";

/// Whether a call is answered here.
pub(in crate::api) fn is_method(app: &App, request: &Request, nsid: &str) -> bool {
    let has_session = request.headers().contains_key(AUTHORIZATION);
    nsid == SUBSCRIBE
        || nsid == query_labels::NSID
            && *request.method() == Method::GET
            && query_labels::is_own(app, has_session)
}

/// Answers a method for which [`is_method`] is true.
pub(in crate::api) async fn answer(app: Arc<App>, nsid: &str, request: Request) -> Result<Response, Error> {
    let sender = Sender::of(&app.access, &request);
    sender.pay(&PublicLimit::PAGE, &request)?;
    if *request.method() != Method::GET {
        return Err(Error::new(StatusCode::METHOD_NOT_ALLOWED, "this method is called with GET"));
    }
    let tenant = sender.tenant().clone();
    if nsid == SUBSCRIBE {
        return subscribe::answer(&app, &tenant, request);
    }
    Ok(method::rendered(query_labels::answer(&app, &tenant, &input::params(&request)).await?))
}
