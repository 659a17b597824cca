//! `POST /xrpc/com.atproto.repo.uploadBlob`: a blob goes to the caller's PDS as it comes in.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{StatusCode, header};

use super::method::rendered;
use crate::app::App;
use crate::methods::pds_session;
use belvedere_instance::xrpc::Caller;
use belvedere_web::http::body::UnreadBody;
use belvedere_web::http::{Error, Request, Response, response};
use belvedere_web::net::OutboundBody;

/// service.md, Limits.
const MAX_BYTES: usize = 50 << 20;

pub async fn handle(
    app: Arc<App>,
    caller: Caller,
    request: Request,
    unread: UnreadBody,
) -> Result<Response, Error> {
    let session = pds_session::of(&app, &caller, None).await?;
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        return Err(Error::bad_request("blobs are uploaded without a Content-Encoding"));
    }
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let (body, arrival) = unread.stream(MAX_BYTES)?;
    let agent = app.repos.agent(&session, &caller.tenant);
    let uploaded = agent.upload_stream(OutboundBody::streamed(body), kind).await;
    match uploaded {
        Ok(answer) => Ok(response::json_bytes(StatusCode::OK, answer)),
        Err(error) => {
            // The caller's own error comes first: a PDS that received half a blob fails because of it.
            arrival.check()?;
            pds_session::failed(error).map(rendered)
        }
    }
}
