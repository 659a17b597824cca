//! `/settings`: serves the public part of the instance's settings.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use crate::app::App;
use belvedere_instance::settings::logo;
use belvedere_storage::store::{StoreError, settings};
use belvedere_web::http::{Error, Request, Response, response};

/// An SVG image may contain scripts: when it is opened as a document, they must not run in this origin.
const SANDBOX_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// `GET /settings/logo`: the logo that an admin stored. 404 when there is none.
pub async fn logo(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let text = settings::get(&app.db, logo::KEY).await?;
    let text = text.ok_or_else(|| Error::not_found("no logo is stored"))?;
    let broken = || Error::from(StoreError::Corrupt("the setting of the logo".to_owned()));
    let (kind, picture) = logo::of_text(&text).ok_or_else(broken)?;
    let mut answer = response::text(StatusCode::OK, picture);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::try_from(kind).map_err(|_| broken())?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX_POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(answer)
}
