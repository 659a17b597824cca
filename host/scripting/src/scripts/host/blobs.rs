//! Blobs of a run: the host keeps their bytes, and the script has a number for each.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::fault;
use crate::scripts::OutboundHttp;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use belvedere_protocol::atproto::{Cid, Did};
use belvedere_web::fair_share::{Permit, Tenant};
use belvedere_web::net::{Client, FetchedResponse, Limits};

/// The content type of a blob whose server sends none.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// One blob.
#[derive(Clone, Debug)]
pub(super) struct Blob {
    pub(super) bytes: Bytes,
    pub(super) mime_type: String,
}

/// All blobs of a run.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    items: Vec<Blob>,
    bytes: usize,
    /// The permit among the runs that hold blobs, taken for the first one.
    permit: Option<Permit>,
}

impl Blobs {
    pub(super) fn get(&self, handle: u32) -> Option<Blob> {
        self.items.get(handle as usize).cloned()
    }

    /// Keeps a blob and returns its number.
    pub(super) fn keep(&mut self, blob: Blob) -> u32 {
        self.bytes += blob.bytes.len();
        self.items.push(blob);
        (self.items.len() - 1) as u32
    }

    /// Bytes that the run may still hold. The first blob waits for a permit among the runs that hold some.
    pub(super) async fn bytes_left(&mut self, web: &OutboundHttp, tenant: &Tenant) -> Result<usize, Fault> {
        if self.permit.is_none() {
            let permit = web.blob_permit(tenant).await;
            self.permit = Some(permit.map_err(|full| {
                fault::new(FaultCode::Unavailable, format!("too many scripts are holding blobs: {full}"))
            })?);
        }
        match limits::BLOB_RUN_BYTES.saturating_sub(self.bytes) {
            0 => Err(fault::limit("too many bytes of blobs", limits::BLOB_RUN_BYTES)),
            bytes_left => Ok(bytes_left),
        }
    }
}

/// Fetches a blob of an account from its PDS, and checks that it matches its CID.
pub(super) async fn fetch(
    client: &Client,
    pds: &str,
    did: &Did,
    cid: &Cid,
    limits: Limits,
) -> Result<Blob, Fault> {
    let did = utf8_percent_encode(did.as_str(), NON_ALPHANUMERIC);
    let url = format!("{pds}/xrpc/com.atproto.sync.getBlob?did={did}&cid={cid}");
    let redirects = limits::HTTP_REDIRECTS;
    let fetched = client.follow(Method::GET, &url, HeaderMap::new(), None, limits, redirects).await;
    blob(fetched.map_err(|error| fault::no_response(&error))?, cid)
}

fn blob(fetched: FetchedResponse, cid: &Cid) -> Result<Blob, Fault> {
    if fetched.status != StatusCode::OK {
        let mut fault =
            fault::new(FaultCode::Upstream, format!("the PDS answered {}", fetched.status.as_u16()));
        fault.status = Some(fetched.status.as_u16());
        return Err(fault);
    }
    if Cid::compute(cid.codec(), &fetched.body).hash() != cid.hash() {
        return Err(fault::new(FaultCode::Upstream, "the blob that the PDS sent does not match its CID"));
    }
    let mime_type = fetched.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Ok(Blob { mime_type: mime_type.unwrap_or(UNKNOWN_TYPE).to_owned(), bytes: fetched.body })
}
