//! The parts of a request to `/xrpc` besides its body: the parameters of the call, and the headers for the server that answers it.

use crate::access::client::CLIENT_KEY_PARAM;
use crate::access::tickets::TICKET_PARAM;
use crate::app::App;
use belvedere_instance::service_identity::SPACE_HOST;
use belvedere_instance::xrpc::{ACCEPT_LABELERS, CallHeaders, PROXY, ServiceRef};
use belvedere_web::http::{Error, Request, websocket};

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
