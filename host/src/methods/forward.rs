//! Forwards methods without a lexicon here (service.md, overview 4; admin-api.md §8; auth-and-clients.md §8).
//!
//! | Method | Caller with a session | Others |
//! |---|---|---|
//! | `com.atproto.*` | the caller's PDS | the authority; procedures are refused |
//! | others, `routing` `authority` | the authority | the authority |
//! | others, `routing` `serviceproxy` | the caller's PDS | the authority |
//!
//! The authority is the PDS of the account that the NSID's domain names; it is called anonymously. Forwards only query
//! and body; returns only status, content type and body.

use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::{Failure, json_input, own_pds};
use crate::app::App;
use crate::atproto::Nsid;
use crate::http::{Error, response};
use crate::lexicons::forwarding::MAX_RESPONSE_BYTES;
use crate::lexicons::forwarding::Routing;
use crate::lexicons::{AuthorityError, ForwardingRules};
use crate::net::{Limits, NetError};
use crate::pds::StandardCall;
use crate::store::StoreError;
use crate::xrpc::{Answer, Call, Origin, Verb};

/// The longest an authority may take. Callers give up about then.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers a call of a method without a lexicon.
pub(super) async fn answer(app: &App, call: &Call) -> Result<Answer, Failure> {
    let nsid = &call.nsid;
    if is_own(app, nsid) {
        return Err(unknown().into());
    }
    let has_session = call.caller.authority.is_some();
    if StandardCall::is_standard(nsid) && (has_session || call.verb == Verb::Procedure) {
        return own_pds::answer(app, call).await;
    }
    let rules = ForwardingRules::load(&app.db).await.map_err(|error: StoreError| Error::from(error))?;
    if !rules.allow(nsid.as_str()) {
        return Err(Error::forbidden("NSID not allowed by proxy policy").into());
    }
    if has_session && rules.routing == Routing::ServiceProxy {
        return own_pds::answer(app, call).await;
    }
    to_authority(app, call).await
}

/// Calls the method's authority; charged to the caller's tenant.
async fn to_authority(app: &App, call: &Call) -> Result<Answer, Failure> {
    let nsid = &call.nsid;
    let body = json_input(call)?.cloned();
    let _place = app.outbound.forwarding.enter(&call.caller.tenant).await.map_err(|full| {
        let text = format!("too many calls are being forwarded: {full}");
        Error::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })?;
    let authority = app.outbound.authorities.of(nsid).await.map_err(|error| match error {
        AuthorityError::Absent(_) | AuthorityError::Ambiguous(_) => Failure::Refused(unknown()),
        AuthorityError::Unavailable(..) => Failure::Unreachable(Box::new(error)),
    })?;
    let url = format!("{}/xrpc/{}", authority.pds, call.path_and_query());
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
    if body.is_some() {
        headers.insert(CONTENT_TYPE, response::JSON);
    }
    let limits = Limits { max_bytes: MAX_RESPONSE_BYTES, total: PATIENCE };
    let fetched = app.outbound.net.request(call.verb.http_method(), &url, headers, body, limits).await;
    let fetched = fetched.map_err(|error| {
        tracing::debug!(method = nsid.as_str(), authority = authority.did.as_str(), %error, "forwarding failed");
        match error {
            NetError::TooLarge(_) => {
                let text = "the answer of the method's authority is too large";
                Failure::Refused(Error::new(StatusCode::BAD_GATEWAY, text))
            }
            error => Failure::Unreachable(Box::new(error)),
        }
    })?;
    let content_type = fetched.headers.get(CONTENT_TYPE).cloned();
    Ok(Answer { status: fetched.status, body: fetched.body, origin: Origin::Forwarded { content_type } })
}

fn unknown() -> Error {
    Error::not_found("method not found")
}

/// Whether a method belongs to the namespace of this instance. Its methods are all in the route table.
fn is_own(app: &App, nsid: &Nsid) -> bool {
    let namespace = app.config.auth.service_namespace.as_str();
    nsid.as_str().strip_prefix(namespace).is_some_and(|rest| rest.starts_with('.'))
}
