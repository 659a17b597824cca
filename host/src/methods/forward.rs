//! Forwards methods without a lexicon here to the authority that the NSID's domain names, anonymously (service.md,
//! overview 4; admin-api.md §8).
//!
//! Forwards only query and body; returns only status, content type and body.

use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::{Failure, json_input};
use crate::app::App;
use crate::atproto::Nsid;
use crate::http::{Error, response};
use crate::lexicons::forwarding::MAX_RESPONSE_BYTES;
use crate::lexicons::{AuthorityError, ForwardingRules};
use crate::net::{Limits, NetError};
use crate::store::StoreError;
use crate::xrpc::{Answer, Call, Origin};

/// The longest an authority may take. Callers give up about then.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls the method's authority; charged to the caller's tenant.
pub(super) async fn answer(app: &App, call: &Call) -> Result<Answer, Failure> {
    let unknown = || Error::not_found("method not found");
    let nsid = &call.nsid;
    if is_own(app, nsid) {
        return Err(unknown().into());
    }
    let rules = ForwardingRules::load(&app.db).await.map_err(|error: StoreError| Error::from(error))?;
    if !rules.allow(nsid.as_str()) {
        return Err(Error::forbidden("NSID not allowed by proxy policy").into());
    }
    let body = json_input(call)?.cloned();
    let _place = app.outbound.forwarding.enter(&call.caller.tenant).await.map_err(|full| {
        let text = format!("too many calls are being forwarded: {full}");
        Error::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })?;
    let authority = app.outbound.authorities.of(nsid).await.map_err(|error| match error {
        AuthorityError::Absent(_) => Failure::Refused(unknown()),
        AuthorityError::Unavailable(..) => Failure::Unreachable(Box::new(error)),
    })?;
    let url = url(&authority.pds, nsid, &call.params);
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

/// Whether a method belongs to the namespace of this instance. Its methods are all in the route table.
fn is_own(app: &App, nsid: &Nsid) -> bool {
    let namespace = app.config.auth.service_namespace.as_str();
    nsid.as_str().strip_prefix(namespace).is_some_and(|rest| rest.starts_with('.'))
}

fn url(pds: &str, nsid: &Nsid, params: &[(String, String)]) -> String {
    let mut url = format!("{pds}/xrpc/{nsid}");
    if !params.is_empty() {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
        url.push('?');
        url.push_str(&query);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_holds_the_query_and_nothing_can_leave_it() {
        let nsid = Nsid::try_from("com.example.get").unwrap();
        let params = [("a b", "1&2=3#"), ("é", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(
            url("https://pds.test", &nsid, &params),
            "https://pds.test/xrpc/com.example.get?a+b=1%262%3D3%23&%C3%A9="
        );
        assert_eq!(url("https://pds.test", &nsid, &[]), "https://pds.test/xrpc/com.example.get");
    }
}
