//! Parses a PDS's responses to writes, and defines the errors of calls to a PDS.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Deserialize;
use serde_json::json;

use super::RenewError;
use belvedere_protocol::atproto::{Cid, RecordUri, Tid};
use belvedere_storage::store::StoreError;
use belvedere_web::fair_share::Full;
use belvedere_web::net::{FetchedResponse, NetError};

/// A PDS's error response, kept complete so that it can be forwarded unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub body: Bytes,
    /// The `Retry-After` of the response, if it is a number of seconds.
    pub retry_after: Option<Duration>,
}

/// The reason why a call to a PDS failed.
#[derive(Debug, thiserror::Error)]
pub enum PdsError {
    #[error("the PDS does not answer: {0}")]
    Net(#[from] NetError),
    /// No request was sent.
    #[error("too many calls to PDSs are in progress: {0}")]
    Busy(#[from] Full),
    #[error("the PDS answered {}: {}", .0.status.as_u16(), .0.reason())]
    Refused(Refusal),
    /// A successful status with an invalid body; the write may or may not have been made.
    #[error("the PDS's response is invalid: {0}")]
    Malformed(String),
    #[error("the session's credential can't be sent")]
    Credential,
    #[error("the session has ended: the user has to sign in again")]
    Ended,
    /// No request was sent, and the session has been ended.
    #[error("the account has moved to another PDS: the user has to log in again")]
    Moved,
    /// Whether the account is still at this PDS can't be determined at present. No request was sent.
    #[error("the account's PDS can't be determined: {0}")]
    Unresolved(Box<RenewError>),
    /// This server's database failed before the request was sent.
    #[error(transparent)]
    Store(StoreError),
    /// The access token has expired and can't be renewed at present.
    #[error("the session can't be renewed: {0}")]
    Renewal(Box<RenewError>),
}

impl PdsError {
    /// The text of the error with all that the PDS said, for callers that hide secrets in it before they cut it.
    pub fn whole_text(&self) -> String {
        match self {
            Self::Refused(refusal) => {
                format!("the PDS answered {}: {}", refusal.status.as_u16(), refusal.whole_reason())
            }
            other => other.to_string(),
        }
    }

    /// For a session whose account's PDS can't be checked.
    pub(crate) fn unresolved(error: RenewError) -> Self {
        match error {
            RenewError::Moved => Self::Moved,
            RenewError::Store(error) => Self::Store(error),
            other => Self::Unresolved(Box::new(other)),
        }
    }

    /// For a session whose tokens can't be renewed.
    pub(crate) fn renewal(error: RenewError) -> Self {
        match error {
            RenewError::Ended => Self::Ended,
            RenewError::Store(error) => Self::Store(error),
            other => Self::Renewal(Box::new(other)),
        }
    }

    /// Whether the session has ended, so that the user has to sign in again.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Ended | Self::Moved)
    }
}

/// A commit to a repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitResult {
    /// The repo's new revision, when the PDS returns it.
    pub rev: Option<Tid>,
    /// The URI and CID that each write produced, in order; `None` for a delete.
    pub records: Vec<Option<(RecordUri, Cid)>>,
}

/// The `error` and `message` fields of an error response; empty when missing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
    message: String,
}

/// Characters of an error response that are included in error texts.
const REASON_CHARS: usize = 300;

impl Refusal {
    fn error_body(&self) -> ErrorBody {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The refusal of a call that the session's effective scopes don't allow, in the form that a PDS would return.
    pub(super) fn missing_scope(scope: &str) -> Self {
        let message = format!("Missing required scope \"{scope}\"");
        let body = json!({ "error": "ScopeMissingError", "message": message });
        Self { status: StatusCode::FORBIDDEN, body: body.to_string().into(), retry_after: None }
    }

    /// The refusal of a call that no scope allows, so that no application may make it for a user.
    pub(super) fn unscoped() -> Self {
        let message = "applications may not call this method for a user: no OAuth scope allows it";
        let body = json!({ "error": "ScopeMissingError", "message": message });
        Self { status: StatusCode::FORBIDDEN, body: body.to_string().into(), retry_after: None }
    }

    /// The error name of the response; empty when it has none.
    pub fn code(&self) -> String {
        self.error_body().error
    }

    /// The error name and message of the response, cut to [`REASON_CHARS`].
    pub fn reason(&self) -> String {
        self.whole_reason().chars().take(REASON_CHARS).collect()
    }

    fn whole_reason(&self) -> String {
        let ErrorBody { error, message } = self.error_body();
        match (error.is_empty(), message.is_empty()) {
            (true, true) => "no reason given".to_owned(),
            (false, true) => error,
            (true, false) => message,
            (false, false) => format!("{error}: {message}"),
        }
    }

    /// Whether a delete was refused because the record does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
            || (self.status == StatusCode::BAD_REQUEST && self.error_body().error == "RecordNotFound")
    }
}

#[derive(Deserialize)]
struct Commit {
    rev: String,
}

#[derive(Deserialize)]
struct RecordRef {
    uri: String,
    cid: String,
}

#[derive(Deserialize)]
struct WriteResponse {
    #[serde(flatten)]
    record: RecordRef,
    commit: Option<Commit>,
}

#[derive(Deserialize)]
struct DeleteResponse {
    commit: Option<Commit>,
}

#[derive(Deserialize)]
struct WriteResult {
    uri: Option<String>,
    cid: Option<String>,
}

#[derive(Deserialize)]
struct ApplyWritesResponse {
    commit: Option<Commit>,
    results: Option<Vec<WriteResult>>,
}

/// The body of a successful response.
///
/// # Errors
/// [`PdsError::Refused`] for any other status.
pub(super) fn success(fetched: FetchedResponse) -> Result<Bytes, PdsError> {
    let FetchedResponse { status, headers, body } = fetched;
    if status.is_success() {
        return Ok(body);
    }
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Err(PdsError::Refused(Refusal { status, body, retry_after: seconds.map(Duration::from_secs) }))
}

/// Parses the response of `createRecord` and `putRecord`.
pub(super) fn written(body: &[u8]) -> Result<CommitResult, PdsError> {
    let answer: WriteResponse = parse(body)?;
    Ok(CommitResult {
        rev: rev(answer.commit),
        records: vec![Some(record_ref(&answer.record.uri, &answer.record.cid)?)],
    })
}

/// Parses the response of `deleteRecord`.
pub(super) fn deleted(body: &[u8]) -> Result<CommitResult, PdsError> {
    // Old PDSs send an empty body.
    let answer = if body.is_empty() { DeleteResponse { commit: None } } else { parse(body)? };
    Ok(CommitResult { rev: rev(answer.commit), records: vec![None] })
}

/// Parses the response of `applyWrites` with `writes` writes.
pub(super) fn applied(body: &[u8], writes: usize) -> Result<CommitResult, PdsError> {
    let answer: ApplyWritesResponse = parse(body)?;
    let results = answer.results.unwrap_or_default();
    if results.len() != writes {
        return Err(PdsError::Malformed(format!("{} results for {writes} writes", results.len())));
    }
    let records = results.into_iter().map(|outcome| match (outcome.uri, outcome.cid) {
        (Some(uri), Some(cid)) => record_ref(&uri, &cid).map(Some),
        _ => Ok(None),
    });
    Ok(CommitResult { rev: rev(answer.commit), records: records.collect::<Result<_, _>>()? })
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, PdsError> {
    serde_json::from_slice(body).map_err(|error| PdsError::Malformed(error.to_string()))
}

fn rev(commit: Option<Commit>) -> Option<Tid> {
    Tid::try_from(commit?.rev.as_str()).ok()
}

fn record_ref(uri: &str, cid: &str) -> Result<(RecordUri, Cid), PdsError> {
    let uri = RecordUri::parse(uri).map_err(|error| PdsError::Malformed(error.to_string()))?;
    let cid = cid.parse().map_err(|_| PdsError::Malformed("the cid is not a CID".to_owned()))?;
    Ok((uri, cid))
}
