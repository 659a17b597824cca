//! Forwards methods without a lexicon here (service.md, overview 4; admin-api.md §8; auth-and-clients.md §8).
//!
//! | Method | Caller with a session | Others |
//! |---|---|---|
//! | `com.atproto.*` | the caller's PDS | the authority; procedures are refused |
//! | others, `routing` `authority` | the authority | the authority |
//! | others, `routing` `serviceproxy` | the caller's PDS | the authority |
//!
//! The authority is the PDS of the account that the NSID's domain names; it is called anonymously. A call that names a
//! service (`atproto-proxy`) goes to that service, whatever lexicons are here: [`to_service`].
//!
//! Forwards only query, body and `atproto-accept-labelers`; returns only status, content type,
//! `atproto-content-labelers` and body.

use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::{Failure, json_input, own_pds};
use crate::app::App;
use belvedere_instance::lexicons::forwarding::MAX_RESPONSE_BYTES;
use belvedere_instance::lexicons::forwarding::Routing;
use belvedere_instance::lexicons::{AuthorityError, ForwardingRules};
use belvedere_instance::pds::StandardCall;
use belvedere_instance::xrpc::{ACCEPT_LABELERS, Answer, Call, ServiceRef, Verb};
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::StoreError;
use belvedere_web::fair_share::Permit;
use belvedere_web::http::{Error, response};
use belvedere_web::net::{Limits, NetError};

/// The longest an authority may take. Callers give up about then.
const MAX_WAIT: Duration = Duration::from_secs(20);

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
    let rules = check_rules(app, nsid).await?;
    if has_session && rules.routing == Routing::ServiceProxy {
        return own_pds::answer(app, call).await;
    }
    to_authority(app, call).await
}

/// Answers a call that names a service of another server (`atproto-proxy`). With a session it goes through the caller's
/// PDS, which calls the service on the caller's behalf; without one it goes to the service directly, anonymously.
pub(super) async fn to_service(app: &App, call: &Call, service: &ServiceRef) -> Result<Answer, Failure> {
    let has_session = call.caller.authority.is_some();
    if !(has_session && StandardCall::is_standard(&call.nsid)) {
        check_rules(app, &call.nsid).await?;
    }
    if has_session || call.verb == Verb::Procedure {
        return own_pds::answer(app, call).await;
    }
    let _permit = permit(app, call).await?;
    let endpoint = match app.core.resolver.resolve(&service.did).await {
        Ok(document) => document.endpoint(&service.fragment).map(str::to_owned),
        Err(error) if error.is_temporary() => return Err(Failure::Unreachable(Box::new(error))),
        Err(_) => None,
    };
    let endpoint = endpoint
        .ok_or_else(|| Error::bad_request(format!("atproto-proxy: there is no service {service}")))?;
    send(app, call, &endpoint).await
}

/// # Errors
/// 403 for a method that the operator's rules don't let out.
async fn check_rules(app: &App, nsid: &Nsid) -> Result<ForwardingRules, Failure> {
    let rules = ForwardingRules::load(&app.db).await.map_err(|error: StoreError| Error::from(error))?;
    if !rules.allow(nsid.as_str()) {
        return Err(Error::forbidden("NSID not allowed by proxy policy").into());
    }
    Ok(rules)
}

/// Calls the method's authority.
async fn to_authority(app: &App, call: &Call) -> Result<Answer, Failure> {
    json_input(call)?;
    let _permit = permit(app, call).await?;
    let authority = app.authorities.of(&call.nsid).await.map_err(|error| match error {
        AuthorityError::Absent(_) | AuthorityError::Ambiguous(_) => Failure::Refused(unknown()),
        AuthorityError::Unavailable(..) => Failure::Unreachable(Box::new(error)),
    })?;
    send(app, call, &authority.pds).await
}

/// A permit for a call to another server; charged to the caller's tenant.
async fn permit(app: &App, call: &Call) -> Result<Permit, Failure> {
    let permit = app.forwarding.enter(&call.caller.tenant).await;
    Ok(permit.map_err(|full| {
        let text = format!("too many calls are being forwarded: {full}");
        Error::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })?)
}

/// Calls the method at another server, anonymously.
async fn send(app: &App, call: &Call, origin: &str) -> Result<Answer, Failure> {
    let body = json_input(call)?.cloned();
    let url = format!("{origin}/xrpc/{}", call.path_and_query());
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
    if body.is_some() {
        headers.insert(CONTENT_TYPE, response::JSON);
    }
    headers.extend(call.headers.accept_labelers.clone().map(|labelers| (ACCEPT_LABELERS, labelers)));
    let limits = Limits { max_bytes: MAX_RESPONSE_BYTES, total: MAX_WAIT };
    let fetched = app.core.net.request(call.verb.http_method(), &url, headers, body, limits).await;
    let fetched = fetched.map_err(|error| {
        tracing::debug!(method = call.nsid.as_str(), origin, %error, "forwarding failed");
        match error {
            NetError::TooLarge(_) => {
                let text = "the answer of the server that answers this method is too large";
                Failure::Refused(Error::new(StatusCode::BAD_GATEWAY, text))
            }
            error => Failure::Unreachable(Box::new(error)),
        }
    })?;
    Ok(Answer::forwarded(fetched.status, &fetched.headers, fetched.body))
}

fn unknown() -> Error {
    Error::not_found("method not found")
}

/// Whether a method belongs to the namespace of this instance. Its methods are all in the route table.
fn is_own(app: &App, nsid: &Nsid) -> bool {
    let namespace = app.config.auth.service_namespace.as_str();
    nsid.as_str().strip_prefix(namespace).is_some_and(|rest| rest.starts_with('.'))
}
