//! `/dashboard/`: the files of the dashboard, which are part of the program (`dev/dashboard.sh` builds them before it).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::encoding::{self, Encoding};
use crate::api::page::{self, Notice};
use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

/// The files that `npm run build` writes. Empty when the program was built without it.
#[derive(RustEmbed)]
#[folder = "../../dashboard/dist"]
#[allow_missing = true]
struct Dist;

/// Only files of this server, no scripts or styles in the markup, and no frame around it (docs/security.md).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
     font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);

/// For files whose names contain a hash of their content: a year.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// For the others: used again only after the server has said that they are still the same.
const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");

const COOP: (HeaderName, HeaderValue) =
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));

/// `GET /dashboard/`: the page, with the scripts of the view that the browser will show: the login, or the rest. Without a
/// built dashboard, a page that says how to build it.
pub async fn index(app: Arc<App>, request: Request) -> Result<Response, Error> {
    let is_expected = app.access.web_sessions.was_logged_in(request.headers());
    let name = if is_expected { "session.html" } else { "index.html" };
    if let Some(mut answer) = serve(name, REVALIDATED, request.headers()) {
        answer.headers_mut().append(VARY, HeaderValue::from_static("cookie"));
        return Ok(answer);
    }
    let text = "This server was built without its dashboard. Build both with “make run”, or run “sh dev/dashboard.sh” and \
        then build the server again. Until then it is managed with its command line and its admin API (docs/operations.md).";
    page::render(StatusCode::OK, &Notice { title: "The dashboard is not built", text, link: None })
}

/// `GET /dashboard/assets/{file}`: a script or a style, whose name changes with its content.
pub async fn asset(_app: Arc<App>, request: Request) -> Result<Response, Error> {
    let path = format!("assets/{}", request.param("file"));
    serve(&path, IMMUTABLE, request.headers()).ok_or_else(not_found)
}

/// `GET /dashboard/{file}`: a file beside the page, such as its icon.
pub async fn file(_app: Arc<App>, request: Request) -> Result<Response, Error> {
    serve(request.param("file"), REVALIDATED, request.headers()).ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("the dashboard has no such file")
}

/// The best copy of a file for a client. `None` when there is no such file, or the name is that of a copy.
fn serve(path: &str, caching: HeaderValue, request: &HeaderMap) -> Option<Response> {
    let kind = content_type(path)?;
    let (file, encoding) = encoding::accepted(request)
        .find_map(|encoding| Some((Dist::get(&format!("{path}{}", encoding.suffix()))?, encoding)))?;
    let tag = entity_tag(&file, encoding);
    let is_known = request.get_all(IF_NONE_MATCH).iter().any(|known| names(known, &tag));
    let mut answer = response::empty(if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    if !is_known {
        *answer.body_mut() = bytes_of(file).into();
    }
    let headers = answer.headers_mut();
    headers.extend([
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, caching),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        COOP,
    ]);
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    if let Some(name) = encoding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    Some(answer)
}

fn bytes_of(file: EmbeddedFile) -> Bytes {
    match file.data {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    }
}

/// Each copy of a file has its own.
fn entity_tag(file: &EmbeddedFile, encoding: Encoding) -> String {
    let hash = hex::encode(&file.metadata.sha256_hash()[..16]);
    format!("\"{hash}{}\"", encoding.suffix())
}

/// Whether a value of `if-none-match` names the tag. A proxy may have made it weak.
fn names(value: &HeaderValue, tag: &str) -> bool {
    let text = value.to_str().unwrap_or_default();
    text.split(',')
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

/// By the end of the name. `None` for what the dashboard has no files of, among them its compressed copies.
fn content_type(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('.')?;
    Some(match end {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "webmanifest" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_kind_and_copies_are_not_files() {
        assert_eq!(content_type("index.html"), Some("text/html; charset=utf-8"));
        assert_eq!(content_type("assets/index-abc.js"), Some("text/javascript; charset=utf-8"));
        for no in ["assets/index-abc.js.br", "assets/index-abc.js.gz", "index", "", ".vite/manifest.map"] {
            assert_eq!(content_type(no), None, "{no}");
        }
        for outside in ["../openapi.json", "assets/../../package.json", "/etc/motd.txt", "assets\\a.js"] {
            assert!(serve(outside, REVALIDATED, &HeaderMap::new()).is_none(), "{outside}");
        }
    }

    #[test]
    fn a_known_tag_is_found_in_a_list() {
        let of = |value: &'static str| names(&HeaderValue::from_static(value), "\"abc.br\"");
        assert!(of("\"abc.br\"") && of("\"x\", W/\"abc.br\"") && of("*"));
        assert!(!of("\"abc\"") && !of("abc.br") && !of(""));
    }
}
