//! `GET` and `POST /xrpc/{nsid}`: methods of the lexicon registry and of other servers, answered by `methods`.

use std::sync::Arc;

use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::{live, subscription};
use crate::access::client::CLIENT_KEY_PARAM;
use crate::access::tickets::TICKET_PARAM;
use crate::access::{Admission, CalledMethod};
use crate::api::call_history;
use crate::api::charged::with_budget;
use crate::app::App;
use crate::methods::{self, fixed::FixedMethod};
use belvedere_instance::service_identity::SPACE_HOST;
use belvedere_instance::xrpc::{
    ACCEPT_LABELERS, Answer, CONTENT_LABELERS, Call, CallHeaders, Caller, Origin, PROXY, ServiceRef, Verb,
};
use belvedere_protocol::atproto::{LexiconKind, Nsid};
use belvedere_web::http::{Error, Request, Response, response, websocket};

/// Headers of an answer whose body another server wrote.
pub(in crate::api) const FOREIGN: [(HeaderName, HeaderValue); 2] = [NOSNIFF, SANDBOX];
const NOSNIFF: (HeaderName, HeaderValue) = (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
/// A page of another server that a browser opens from our origin runs no script and belongs to no origin.
const SANDBOX: (HeaderName, HeaderValue) =
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));

pub async fn query(app: Arc<App>, caller: Caller, request: Request) -> Result<Response, Error> {
    let lexicon = app.registry.get(request.param("nsid"));
    if let Some(lexicon) = lexicon.filter(|_| !is_for_another_server(&app, &request)) {
        match lexicon.kind {
            LexiconKind::Subscription => {
                return subscription::answer(&app, caller, request, &lexicon).await;
            }
            LexiconKind::Query if websocket::is_upgrade(&request) => {
                return live::answer(&app, caller, request, lexicon.id.clone()).await;
            }
            _ => {}
        }
    }
    call(&app, Verb::Query, request.param("nsid"), caller, &request).await
}

pub async fn procedure(app: Arc<App>, caller: Caller, request: Request) -> Result<Response, Error> {
    call(&app, Verb::Procedure, request.param("nsid"), caller, &request).await
}

/// `GET /xrpc/app.bsky.actor.getProfile`
pub async fn get_profile(app: Arc<App>, caller: Caller, request: Request) -> Result<Response, Error> {
    call(&app, Verb::Query, FixedMethod::GetProfile.as_str(), caller, &request).await
}

/// `GET /xrpc/com.atproto.server.describeServer`: public, without a client key. A call of its script is charged and
/// counted as those of other methods.
pub async fn describe_server(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let nsid = Nsid::try_from(FixedMethod::DescribeServer.as_str()).map_err(Error::internal)?;
    let (caller, headers) = (Caller::default(), CallHeaders::default());
    let mut call = Call { verb: Verb::Query, nsid, params: params(&request), input: None, caller, headers };
    if !methods::is_scripted(&app, &call) {
        return Ok(rendered(methods::answer(&app, &call).await?));
    }
    let method = CalledMethod { nsid: FixedMethod::DescribeServer.as_str(), verb: call.verb, is_fixed: true };
    let counted = call_history::begin(&app, method);
    match app.access.admit_public(&request, method) {
        Ok(Admission { caller, budget, .. }) => {
            call.caller = caller;
            let answer = methods::answer(&app, &call).await.map(rendered).map_err(Error::from);
            counted.end(&app, call.caller.client.as_deref(), &answer);
            with_budget(answer, budget)
        }
        Err(error) => {
            let answer = Err(error);
            counted.refused(&app, &request, &answer);
            answer
        }
    }
}

async fn call(
    app: &Arc<App>,
    verb: Verb,
    nsid: &str,
    caller: Caller,
    request: &Request,
) -> Result<Response, Error> {
    let nsid = Nsid::try_from(nsid).map_err(|_| Error::not_found("method not found"))?;
    let has_input = verb == Verb::Procedure && !request.body.is_empty();
    let input = has_input.then(|| request.body.clone());
    let call = Call { verb, nsid, params: params(request), input, caller, headers: headers(app, request)? };
    Ok(rendered(methods::answer(app, &call).await?))
}

/// The service that a request names.
fn named_service(request: &Request) -> Result<Option<ServiceRef>, Error> {
    let Some(named) = request.headers().get(PROXY) else { return Ok(None) };
    let service = named.to_str().ok().and_then(ServiceRef::parse).ok_or_else(|| {
        Error::bad_request(
            "atproto-proxy must be a DID with the fragment of a service, like did:web:api.example#svc",
        )
    })?;
    Ok(Some(service))
}

/// Whether a request names a service of another server.
pub(in crate::api) fn is_for_another_server(app: &App, request: &Request) -> bool {
    matches!(named_service(request), Ok(Some(service)) if service.did != app.service_identity.did())
}

/// The headers for the server that answers the call. A service of this server's own answers here.
pub(super) fn headers(app: &App, request: &Request) -> Result<CallHeaders, Error> {
    let accept_labelers = request.headers().get(ACCEPT_LABELERS).cloned();
    let Some(service) = named_service(request)? else {
        return Ok(CallHeaders { service: None, accept_labelers });
    };
    if service.did != app.service_identity.did() {
        return Ok(CallHeaders { service: Some(service), accept_labelers });
    }
    check_own_service(app, &service)?;
    Ok(CallHeaders { service: None, accept_labelers })
}

fn check_own_service(app: &App, service: &ServiceRef) -> Result<(), Error> {
    if app.service_identity.has_service(service.did.as_str(), &service.fragment) {
        return Ok(());
    }
    Err(Error::bad_request(format!("atproto-proxy: this server has no service {}", service.fragment)))
}

/// Checks that a call of a method of spaces names no service, a host of spaces, or a service of this server. A call that names the
/// host of another server is answered here too, with what this server has of the space.
///
/// # Errors
/// 400 for another service, and for a malformed name.
pub(super) fn check_service_of_spaces(app: &App, request: &Request) -> Result<(), Error> {
    match named_service(request)? {
        Some(service) if service.fragment != SPACE_HOST.0 => check_own_service(app, &service),
        _ => Ok(()),
    }
}

/// Names and values in order, decoded; a key without `=` has an empty value. The client's key is not among them, nor is the ticket of
/// a WebSocket.
pub(super) fn params(request: &Request) -> Vec<(String, String)> {
    let is_socket = websocket::is_upgrade(request);
    request
        .query_pairs()
        .filter(|(name, _)| name != CLIENT_KEY_PARAM && !(is_socket && name == TICKET_PARAM))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

pub(super) fn rendered(answer: Answer) -> Response {
    let Answer { status, body, origin } = answer;
    let Origin::Forwarded { content_type, content_labelers } = origin else {
        return response::json_bytes(status, body);
    };
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type.unwrap_or(response::JSON));
    response.headers_mut().extend(FOREIGN);
    response.headers_mut().extend(content_labelers.map(|labelers| (CONTENT_LABELERS, labelers)));
    response
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use belvedere_web::http::request::NO_PEER;

    #[test]
    fn every_parameter_is_text_and_the_client_key_is_none() {
        let uri = "/xrpc/a.b.c?limit=5&tag=a&tag=b&flag&sp=a+b%26&client_key=bvc_1";
        let (head, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let request =
            Request { head, body: Bytes::new(), params: Vec::new(), id: String::new(), peer: NO_PEER };
        let params = params(&request);
        let params: Vec<(&str, &str)> = params.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(params, [("limit", "5"), ("tag", "a"), ("tag", "b"), ("flag", ""), ("sp", "a b&")]);
    }
}
