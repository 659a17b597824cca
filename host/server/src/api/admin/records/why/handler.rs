//! The request and the answer.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::facts::Facts;
use super::step::{Step, steps};
use super::verdict::{Verdict, decide};
use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use belvedere_protocol::atproto::typed;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Answer {
    uri: String,
    verdict: &'static str,
    /// Whether queries find the record.
    is_visible: bool,
    summary: String,
    advice: String,
    steps: Vec<Step>,
}

pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let uri = paging::required(&request, "uri")?;
    let uri = app.core.resolver.record_uri(&typed(&uri)).await?;
    let look = match request.query("look").as_deref() {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(Error::bad_request("look must be true or false")),
    };
    let facts = Facts::gather(&app, &uri, look).await?;
    let Verdict { name, summary, advice } = decide(&uri, &facts);
    let answer = Answer {
        uri: uri.to_string(),
        verdict: name,
        is_visible: name == "visible",
        summary,
        advice,
        steps: steps(&uri, &facts),
    };
    Ok(response::json(StatusCode::OK, &answer))
}
