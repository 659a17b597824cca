//! `/admin/accounts/{did}/picture`: the picture of an account, for pages of the dashboard: they load nothing from other origins.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::profiles::{self, NamedAccount};
use crate::access::Admin;
use crate::api::answer::{Built, Image};
use crate::api::xrpc::method::FOREIGN;
use crate::app::App;
use belvedere_protocol::atproto::{Cid, Did, blobs};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request, response};
use belvedere_web::net::Limits;

/// Pictures of profiles have at most 1 MB in `app.bsky.actor.profile`, and a list of accounts shows many.
const LIMITS: Limits = Limits { max_bytes: 1 << 20, total: Duration::from_secs(10) };

/// Redirects that are followed: some PDSs answer from another host.
const REDIRECTS: u8 = 2;

/// The address has the picture's CID, so that a new picture has another one.
const CACHED: HeaderValue = HeaderValue::from_static("private, max-age=86400, immutable");

fn no_picture() -> Error {
    Error::not_found("the index has no picture of this account")
}

fn failed(text: &'static str) -> Error {
    Error::new(StatusCode::BAD_GATEWAY, text)
}

/// The media type of an image by its first bytes; the one that its author or PDS names is ignored. SVG is refused, because it
/// may contain scripts.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// `GET /admin/accounts/{did}/picture`: the picture in an account's profile, from its PDS.
pub async fn get(app: Arc<App>, admin: Admin, request: Request) -> Result<Built<Image>, Error> {
    let did = Did::try_from(request.param("did")).map_err(|error| Error::bad_request(error.to_string()))?;
    let tenant = Tenant::of_did(admin.did.as_str());
    let account = profiles::read(&app, &tenant, vec![did]).await?.pop();
    let NamedAccount { did, pds, picture, .. } = account.ok_or_else(no_picture)?;
    let (pds, picture) = (pds.ok_or_else(no_picture)?, picture.ok_or_else(no_picture)?);

    let permit = app.scripting.web.permit(&tenant).await;
    let _permit = permit.map_err(|full| {
        Error::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("too many requests wait for other servers: {full}"),
        )
    })?;
    let url = blobs::url(&pds, did.as_str(), &picture.to_string());
    let fetched = app.core.net.follow(Method::GET, &url, HeaderMap::new(), None, LIMITS, REDIRECTS).await;
    let fetched = fetched.map_err(|error| {
        tracing::info!(%did, %error, "a picture could not be fetched");
        failed("the account's PDS does not answer")
    })?;
    if fetched.status != StatusCode::OK {
        return Err(failed("the account's PDS does not return the picture"));
    }
    if Cid::compute(picture.codec(), &fetched.body).hash() != picture.hash() {
        return Err(failed("the account's PDS returned something else than the picture"));
    }
    let kind = kind_of(&fetched.body).ok_or_else(|| failed("the picture is not a PNG, JPEG, GIF or WebP"))?;
    let mut answer = response::text(StatusCode::OK, fetched.body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, CACHED);
    answer.headers_mut().extend(FOREIGN);
    Ok(answer.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_without_scripts_are_shown() {
        assert_eq!(kind_of(b"\x89PNG\r\n\x1a\n"), Some("image/png"));
        assert_eq!(kind_of(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(kind_of(b"GIF89a"), Some("image/gif"));
        assert_eq!(kind_of(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        for other in
            [&b""[..], b"<svg xmlns='http://www.w3.org/2000/svg'>", b"RIFF\0\0\0\0WAVE", b"%PDF", b"\x89PN"]
        {
            assert_eq!(kind_of(other), None, "{other:?}");
        }
    }
}
