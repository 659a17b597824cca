//! `listBlobs`, `getBlob`: the blobs that records of a space refer to. Their bytes are at the author's PDS, which gives them to
//! every client that knows their CID (docs/spaces.md).

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::input;
use crate::api::xrpc::method::FOREIGN;
use crate::app::App;
use belvedere_instance::spaces::Viewer;
use belvedere_protocol::atproto::{Cid, blobs};
use belvedere_web::http::response::Interrupted;
use belvedere_web::http::{Error, Request, Response, response};
use belvedere_web::net::Limits;

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The largest blob that is sent on: PDSs accept none of this size.
const LIMITS: Limits = Limits { max_bytes: 100 << 20, total: Duration::from_mins(5) };

/// `GET listBlobs?space=&repo=&since=&limit=&cursor=`
pub async fn list(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let (uri, repo) = (input::space(&request)?, input::required_repo(&request)?);
    let limit = input::limit(&request, 500, 1_000)?;
    let since = input::optional(&request, "since")?;
    let after = request.query("cursor").unwrap_or_default();
    let cids = app.spaces.blobs(&uri, &viewer, &repo, since, &after, limit).await?;
    let mut answer = json!({ "cids": cids });
    if let Some(last) = cids.last().filter(|_| cids.len() == limit as usize) {
        answer["cursor"] = last.as_str().into();
    }
    Ok(response::json(StatusCode::OK, &answer))
}

/// `GET getBlob?space=&repo=&cid=`: sent on as it arrives.
pub async fn get(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let (uri, repo) = (input::space(&request)?, input::required_repo(&request)?);
    let cid: Cid = input::required(&request, "cid")?;
    let cid = cid.to_string();
    if !app.spaces.has_blob(&uri, &viewer, &repo, &cid).await? {
        return Err(Error::not_found("BlobNotFound").with_message("Blob not found in this space"));
    }
    let failed =
        |what: &'static str| Error::new(StatusCode::BAD_GATEWAY, "UpstreamFailure").with_message(what);
    let permit = app.forwarding.enter(&viewer.tenant(&uri)).await;
    let permit = permit
        .map_err(|_| Error::new(StatusCode::SERVICE_UNAVAILABLE, "too many calls are being forwarded"))?;
    let document = app.core.resolver.for_reads().resolve(&repo).await;
    let document = document.map_err(|_| failed("the author's DID document can't be read"))?;
    let pds = document.pds().ok_or_else(|| failed("the author has no PDS"))?;
    let url = blobs::url(pds, repo.as_str(), &cid);
    let arriving = app.core.net.open(Method::GET, &url, HeaderMap::new(), None, LIMITS).await;
    let arriving = arriving.map_err(|error| {
        tracing::info!(%repo, %error, "a blob could not be read");
        failed("the author's PDS does not answer")
    })?;
    if !arriving.status.is_success() {
        return Err(failed("the author's PDS does not return the blob"));
    }
    let content_type = arriving.headers.get(CONTENT_TYPE).cloned();
    let bytes = stream::try_unfold((arriving, permit), |(mut arriving, permit)| async move {
        let chunk = arriving.chunk().await.map_err(|error| {
            tracing::info!(%error, "a blob did not arrive whole");
            Interrupted
        })?;
        Ok(chunk.map(|chunk| (chunk, (arriving, permit))))
    });
    let mut response = response::download(content_type.unwrap_or(OCTETS), bytes);
    response.headers_mut().extend(FOREIGN);
    Ok(response)
}
