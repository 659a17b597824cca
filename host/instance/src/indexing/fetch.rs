//! Fetches the current version of one record from its author's PDS and checks it like a record from the stream.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::identity::{IdentityError, Resolver};
use belvedere_protocol::atproto::{Cid, RecordUri, record};
use belvedere_storage::store::index::{CheckedRecord, Validity};
use belvedere_web::net::{Client, Limits, NetError};

/// A record has at most 1 MiB; the rest is for the URI and CID that the response adds.
const MAX_RESPONSE_BYTES: usize = (1 << 20) + (64 << 10);

/// The reason why a fetch could not tell whether the record exists.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the author's DID can't be resolved: {0}")]
    Identity(#[from] IdentityError),
    #[error("the author's DID document names no PDS")]
    NoPds,
    #[error("the request to the PDS failed: {0}")]
    Net(#[from] NetError),
    #[error("the PDS responded with status {0}")]
    Status(StatusCode),
    #[error("the PDS's response is not a valid record: {0}")]
    Malformed(String),
    #[error("the record does not match the CID that its PDS claims for it")]
    CidMismatch,
}

#[derive(Deserialize)]
struct GetRecordOutput<'a> {
    cid: Option<&'a str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Fetches a record with `com.atproto.repo.getRecord`. `None` when the PDS says that it does not exist.
///
/// # Errors
/// When the author can't be resolved, the PDS can't be reached, or its response is invalid.
pub async fn record(
    net: &Client,
    resolver: &Resolver,
    uri: &RecordUri,
) -> Result<Option<CheckedRecord>, FetchError> {
    let document = resolver.resolve(&uri.did).await?;
    let pds = document.pds().ok_or(FetchError::NoPds)?;
    let mut url = Url::parse(pds)
        .and_then(|url| url.join("/xrpc/com.atproto.repo.getRecord"))
        .map_err(|error| FetchError::Malformed(error.to_string()))?;
    url.query_pairs_mut()
        .append_pair("repo", uri.did.as_str())
        .append_pair("collection", uri.collection.as_str())
        .append_pair("rkey", uri.rkey.as_str());
    let limits = Limits { max_bytes: MAX_RESPONSE_BYTES, ..Limits::DOCUMENT };
    let fetched = net.get(url.as_str(), limits).await?;
    if !fetched.status.is_success() {
        return if is_not_found(fetched.status, &fetched.body) {
            Ok(None)
        } else {
            Err(FetchError::Status(fetched.status))
        };
    }
    read(&fetched.body).map(Some)
}

/// Whether an error of `getRecord` says that the record does not exist: by the protocol's name of that error, or in the words
/// of PDSs that lack the name. A status alone may be a proxy's, or of a server that does not know the method.
pub fn denies_record(status: StatusCode, error: &str, message: &str) -> bool {
    let is_named = match error {
        "RecordNotFound" => true,
        "InvalidRequest" => message.starts_with("Could not locate record"),
        _ => false,
    };
    is_named && matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND)
}

fn is_not_found(status: StatusCode, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct XrpcError {
        error: String,
        #[serde(default)]
        message: String,
    }
    let error = serde_json::from_slice::<XrpcError>(body);
    error.is_ok_and(|body| denies_record(status, &body.error, &body.message))
}

fn read(body: &[u8]) -> Result<CheckedRecord, FetchError> {
    let malformed = |error: String| FetchError::Malformed(error);
    let output: GetRecordOutput<'_> =
        serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    let text = output.value.get();
    let inspected = record::inspect(text.as_bytes()).map_err(|error| malformed(error.to_string()))?;
    let claimed =
        output.cid.map(|cid| cid.parse::<Cid>().map_err(|_| FetchError::CidMismatch)).transpose()?;
    // As on the stream: a record without a DAG-CBOR form keeps the claimed CID, unverified.
    let cid_verified = match (&claimed, &inspected.cid) {
        (Some(claimed), Ok(computed)) if claimed != computed => return Err(FetchError::CidMismatch),
        (Some(_), Ok(_)) => true,
        _ => false,
    };
    let record = inspected.canonical.unwrap_or_else(|| Bytes::copy_from_slice(text.as_bytes()));
    Ok(CheckedRecord {
        text: record,
        cid: claimed,
        cid_verified,
        refs: inspected.refs,
        validity: Validity::Unchecked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_a_wrong_cid_is_refused() {
        let cid = record::inspect(br#"{"a":1}"#).unwrap().cid.unwrap().to_string();
        let found =
            read(format!(r#"{{"uri":"at://x","cid":"{cid}","value":{{"a":1}}}}"#).as_bytes()).unwrap();
        assert!(found.cid_verified && &found.text[..] == br#"{"a":1}"#);
        let other = read(format!(r#"{{"cid":"{cid}","value":{{"a":2}}}}"#).as_bytes());
        assert!(matches!(other, Err(FetchError::CidMismatch)));
        assert!(matches!(read(br#"{"cid":"nonsense","value":{}}"#), Err(FetchError::CidMismatch)));
        assert!(!read(br#"{"value":{"x":1.5}}"#).unwrap().cid_verified);
        for bad in [&b"[]"[..], b"{}", br#"{"value":[1]}"#, b"<html>"] {
            assert!(matches!(read(bad), Err(FetchError::Malformed(_))));
        }
    }

    #[test]
    fn only_not_found_responses_mean_that_the_record_does_not_exist() {
        for (status, body, gone) in [
            (400, r#"{"error":"RecordNotFound","message":"x"}"#, true),
            (400, r#"{"error":"InvalidRequest"}"#, false),
            (400, r#"{"error":"InvalidRequest","message":"Could not locate record: at://x"}"#, true),
            (404, r#"{"error":"RecordNotFound"}"#, true),
            (404, "", false),
            (404, "<html>404 Not Found</html>", false),
            (502, r#"{"error":"RecordNotFound"}"#, false),
        ] {
            assert_eq!(
                is_not_found(StatusCode::from_u16(status).unwrap(), body.as_bytes()),
                gone,
                "{status} {body}"
            );
        }
    }
}
