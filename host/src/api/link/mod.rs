//! `/link/*`: the pages that the owner of a repo sees.

pub mod result;
pub mod start;

use askama::Template;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};

use crate::http::{Error, Response, response};

/// A page without scripts, in no frame, that tells nobody where it was.
fn page(template: &impl Template) -> Result<Response, Error> {
    let html = template.render().map_err(Error::internal)?;
    let mut answer = response::text(StatusCode::OK, html);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src https: http: data:; frame-ancestors 'none'; \
                  base-uri 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(answer)
}
