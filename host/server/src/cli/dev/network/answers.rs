//! The forms of answers of the stand-in network.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use belvedere_web::net::FetchedResponse;

pub(super) fn json_answer(status: StatusCode, body: &Value) -> FetchedResponse {
    answer(status, "application/json", body.to_string().into())
}

/// An error of a method (specification of XRPC).
pub(super) fn refusal(status: StatusCode, error: &str, message: &str) -> FetchedResponse {
    json_answer(status, &json!({ "error": error, "message": message }))
}

/// A page whose title and content are HTML.
pub(super) fn page(title: &str, content: &str) -> FetchedResponse {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>body{{font:1.1rem system-ui;max-width:32rem;margin:3rem auto;padding:0 1rem}}\
         li{{margin:.6rem 0}}</style><h1>{title}</h1>{content}</html>\n"
    );
    answer(StatusCode::OK, "text/html; charset=utf-8", html.into())
}

pub(super) fn answer(status: StatusCode, content_type: &str, body: Bytes) -> FetchedResponse {
    let content_type =
        HeaderValue::from_str(content_type).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    FetchedResponse { status, headers: HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]), body }
}
