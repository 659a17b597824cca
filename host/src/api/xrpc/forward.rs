//! Methods without a lexicon here: the authority that the NSID's domain names is asked, on nobody's behalf (service.md,
//! overview 4; admin-api.md §8).
//!
//! Nothing of the caller goes along but the query and the body, and nothing of the answer comes back but its status,
//! type and body: what is between is a stranger's.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::Full as Whole;
use serde::de::IgnoredAny;

use super::params;
use crate::app::App;
use crate::atproto::Nsid;
use crate::fair_share::{Full, Tenant};
use crate::http::{Error, Request, Response};
use crate::lexicons::forwarding::MAX_ANSWER;
use crate::lexicons::{AuthorityError, ForwardingRules};
use crate::net::{Limits, NetError};

/// The longest an authority may take. Callers give up about then.
const PATIENCE: Duration = Duration::from_secs(20);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NOSNIFF: (HeaderName, HeaderValue) =
    (http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
/// A stranger's page that a browser opens from our origin runs no script and belongs to no origin.
const SANDBOX: (HeaderName, HeaderValue) =
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));

/// Why there is no answer of the authority's.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("method not found")]
    Unknown,
    #[error("NSID not allowed by proxy policy")]
    Forbidden,
    #[error("the body is not JSON: {0}")]
    Body(serde_json::Error),
    /// Nobody answered for the method.
    #[error("the method's authority can't be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("too many calls are being forwarded: {0}")]
    Busy(Full),
    #[error("the answer of the method's authority is too large")]
    TooLarge,
    /// Our own failure.
    #[error("{0:?}")]
    Internal(Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::Internal(error) => return error,
            Refusal::Unknown => StatusCode::NOT_FOUND,
            Refusal::Forbidden => StatusCode::FORBIDDEN,
            Refusal::Body(_) => StatusCode::BAD_REQUEST,
            Refusal::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Unreachable(_) | Refusal::TooLarge => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, refusal.to_string())
    }
}

/// Asks the authority of the method that the path names, at the expense of `tenant`. GET and POST alone come here.
pub(super) async fn forward(app: &App, tenant: &Tenant, request: &Request) -> Result<Response, Refusal> {
    let nsid = Nsid::try_from(request.param("nsid")).map_err(|_| Refusal::Unknown)?;
    if is_ours(app, &nsid) {
        return Err(Refusal::Unknown);
    }
    let rules = ForwardingRules::load(&app.db).await.map_err(|e| Refusal::Internal(Error::from(e)))?;
    if !rules.allow(nsid.as_str()) {
        return Err(Refusal::Forbidden);
    }
    let body = body(request)?;
    let _place = app.forwards.enter(tenant).await.map_err(Refusal::Busy)?;
    let authority = app.authorities.of(&nsid).await.map_err(|error| match error {
        AuthorityError::Absent(_) => Refusal::Unknown,
        AuthorityError::Unavailable(..) => Refusal::Unreachable(Box::new(error)),
    })?;
    let url = url(&authority.pds, &nsid, &params::collect(request));
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
    if body.is_some() {
        headers.insert(CONTENT_TYPE, JSON);
    }
    let limits = Limits { max_bytes: MAX_ANSWER, total: PATIENCE };
    let fetched = app.net.request(request.method().clone(), &url, headers, body, limits).await;
    let fetched = fetched.map_err(|error| {
        tracing::debug!(method = nsid.as_str(), authority = authority.did.as_str(), %error, "forwarding failed");
        match error {
            NetError::TooLarge(_) => Refusal::TooLarge,
            error => Refusal::Unreachable(Box::new(error)),
        }
    })?;
    let mut response = Response::new(Whole::new(fetched.body));
    *response.status_mut() = fetched.status;
    let kind = fetched.headers.get(CONTENT_TYPE).cloned().unwrap_or(JSON);
    response.headers_mut().extend([(CONTENT_TYPE, kind), NOSNIFF, SANDBOX]);
    Ok(response)
}

/// The namespace that this instance answers for itself: what is not there is nowhere.
fn is_ours(app: &App, nsid: &Nsid) -> bool {
    let namespace = app.config.auth.service_namespace.as_str();
    nsid.as_str().strip_prefix(namespace).is_some_and(|rest| rest.starts_with('.'))
}

/// The body of a POST: JSON, or none.
fn body(request: &Request) -> Result<Option<Bytes>, Refusal> {
    if *request.method() != Method::POST || request.body.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice::<IgnoredAny>(&request.body).map_err(Refusal::Body)?;
    Ok(Some(request.body.clone()))
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
