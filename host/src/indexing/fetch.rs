//! One record as the PDS of its author has it now, checked as one from the stream is.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::atproto::{Cid, RecordUri, record};
use crate::identity::{IdentityError, Resolver};
use crate::net::{Client, Limits, NetError};

/// A record of the protocol is at most 1 MiB; the answer has its URI and CID around it.
const ANSWER_BYTES: usize = (1 << 20) + (64 << 10);

/// A record that was found.
#[derive(Debug)]
pub struct Found {
    /// JSON text.
    pub record: Bytes,
    pub cid: Option<Cid>,
    pub cid_verified: bool,
    pub refs: Vec<String>,
}

/// Why it is not known whether there is such a record.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the author can't be resolved: {0}")]
    Identity(#[from] IdentityError),
    #[error("the author has no PDS")]
    NoPds,
    #[error("the PDS does not answer: {0}")]
    Net(#[from] NetError),
    #[error("the PDS answered {0}")]
    Status(StatusCode),
    #[error("the PDS's answer is no record: {0}")]
    Malformed(String),
    #[error("the record does not have the CID that its PDS gives it")]
    CidMismatch,
}

#[derive(Deserialize)]
struct Answer<'a> {
    cid: Option<&'a str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Asks `com.atproto.repo.getRecord`. `None` when the PDS says that there is no such record.
///
/// # Errors
/// When nobody can say.
pub async fn record(net: &Client, resolver: &Resolver, uri: &RecordUri) -> Result<Option<Found>, FetchError> {
    let document = resolver.resolve(&uri.did).await?;
    let pds = document.pds().ok_or(FetchError::NoPds)?;
    let mut url = Url::parse(pds)
        .and_then(|url| url.join("/xrpc/com.atproto.repo.getRecord"))
        .map_err(|error| FetchError::Malformed(error.to_string()))?;
    url.query_pairs_mut()
        .append_pair("repo", uri.did.as_str())
        .append_pair("collection", uri.collection.as_str())
        .append_pair("rkey", uri.rkey.as_str());
    let limits = Limits { max_bytes: ANSWER_BYTES, ..Limits::DOCUMENT };
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

/// The protocol's answer is a 400 with the error's name.
fn is_not_found(status: StatusCode, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let named =
        serde_json::from_slice::<Refusal>(body).is_ok_and(|refusal| refusal.error == "RecordNotFound");
    status == StatusCode::NOT_FOUND || (status == StatusCode::BAD_REQUEST && named)
}

fn read(body: &[u8]) -> Result<Found, FetchError> {
    let malformed = |error: String| FetchError::Malformed(error);
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    let text = answer.value.get();
    let inspected = record::inspect(text.as_bytes()).map_err(|error| malformed(error.to_string()))?;
    let claimed =
        answer.cid.map(|cid| cid.parse::<Cid>().map_err(|_| FetchError::CidMismatch)).transpose()?;
    // As on the stream: a record without a DAG-CBOR form keeps the CID that it is said to have.
    let cid_verified = match (&claimed, &inspected.cid) {
        (Some(claimed), Ok(computed)) if claimed != computed => return Err(FetchError::CidMismatch),
        (Some(_), Ok(_)) => true,
        _ => false,
    };
    let record = Bytes::copy_from_slice(text.as_bytes());
    Ok(Found { record, cid: claimed, cid_verified, refs: inspected.refs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_with_its_own_cid_only() {
        let cid = record::inspect(br#"{"a":1}"#).unwrap().cid.unwrap().to_string();
        let found =
            read(format!(r#"{{"uri":"at://x","cid":"{cid}","value":{{"a":1}}}}"#).as_bytes()).unwrap();
        assert!(found.cid_verified && &found.record[..] == br#"{"a":1}"#);
        let other = read(format!(r#"{{"cid":"{cid}","value":{{"a":2}}}}"#).as_bytes());
        assert!(matches!(other, Err(FetchError::CidMismatch)));
        assert!(matches!(read(br#"{"cid":"nonsense","value":{}}"#), Err(FetchError::CidMismatch)));
        assert!(!read(br#"{"value":{"x":1.5}}"#).unwrap().cid_verified);
        for bad in [&b"[]"[..], b"{}", br#"{"value":[1]}"#, b"<html>"] {
            assert!(matches!(read(bad), Err(FetchError::Malformed(_))));
        }
    }

    #[test]
    fn only_the_protocols_own_words_mean_that_it_is_gone() {
        for (status, body, gone) in [
            (400, r#"{"error":"RecordNotFound","message":"x"}"#, true),
            (400, r#"{"error":"InvalidRequest"}"#, false),
            (404, "", true),
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
