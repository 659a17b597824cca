//! `/auth/*`: users log in with their PDS.

pub mod callback;
pub mod linked_repo;
pub mod login;
pub mod logout;
pub mod me;

use http::StatusCode;
use http::header::{HeaderValue, LOCATION};

use crate::http::{Response, response};

/// 303: the page is another than the one that was asked for. Only for URLs of ours, and those that were checked.
fn redirect(to: &str) -> Response {
    let mut answer = response::empty(StatusCode::SEE_OTHER);
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    answer.headers_mut().insert(LOCATION, to);
    answer
}
