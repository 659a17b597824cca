//! What a PDS answers to a write.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::RenewError;
use crate::atproto::{Cid, RecordUri, Tid};
use crate::fair_share::Full;
use crate::net::{Fetched, NetError};

/// A PDS said no. Kept whole, so that it can be passed on unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub body: Bytes,
}

/// Why a call was not successful.
#[derive(Debug, thiserror::Error)]
pub enum PdsError {
    #[error("the PDS does not answer: {0}")]
    Net(#[from] NetError),
    /// Nothing was sent.
    #[error("too many calls to PDSs are under way: {0}")]
    Busy(#[from] Full),
    #[error("the PDS answered {}: {}", .0.status.as_u16(), .0.reason())]
    Refused(Refusal),
    /// It said yes in a way that makes no sense; what it did is not known.
    #[error("the PDS's answer makes no sense: {0}")]
    Malformed(String),
    #[error("the session's credential can't be sent")]
    Credential,
    #[error("the session has ended: the user has to sign in again")]
    Ended,
    /// The tokens are over, and newer ones can't be had now.
    #[error("the session can't be renewed: {0}")]
    Renewal(Box<RenewError>),
}

/// A commit to a repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The repo's new revision, when the PDS tells it.
    pub rev: Option<Tid>,
    /// For each write in order what is there now; `None` for a delete.
    pub records: Vec<Option<(RecordUri, Cid)>>,
}

/// `{error, message}` of a refusal, as far as it is there.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
    message: String,
}

/// Characters of a refusal that are repeated in messages; the whole body is kept beside.
const REASON_CHARS: usize = 300;

impl Refusal {
    fn error_body(&self) -> ErrorBody {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Our own refusal of what a session may not do (any more), in the PDS's words for it.
    pub(super) fn missing_scope(scope: &str) -> Self {
        let message = format!("Missing required scope \"{scope}\"");
        let body = json!({ "error": "ScopeMissingError", "message": message });
        Self { status: StatusCode::FORBIDDEN, body: body.to_string().into() }
    }

    /// Error name and message of the answer.
    pub fn reason(&self) -> String {
        let ErrorBody { error, message } = self.error_body();
        let text = match (error.is_empty(), message.is_empty()) {
            (true, true) => "no reason given".to_owned(),
            (false, true) => error,
            (true, false) => message,
            (false, false) => format!("{error}: {message}"),
        };
        text.chars().take(REASON_CHARS).collect()
    }

    /// Whether what should be deleted is not there.
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
struct Place {
    uri: String,
    cid: String,
}

#[derive(Deserialize)]
struct OneAnswer {
    #[serde(flatten)]
    place: Place,
    commit: Option<Commit>,
}

#[derive(Deserialize)]
struct DeleteAnswer {
    commit: Option<Commit>,
}

#[derive(Deserialize)]
struct Outcome {
    uri: Option<String>,
    cid: Option<String>,
}

#[derive(Deserialize)]
struct ManyAnswer {
    commit: Option<Commit>,
    results: Option<Vec<Outcome>>,
}

/// The body of a success.
pub(super) fn success(fetched: Fetched) -> Result<Bytes, PdsError> {
    let Fetched { status, body, .. } = fetched;
    if status.is_success() { Ok(body) } else { Err(PdsError::Refused(Refusal { status, body })) }
}

/// Of `createRecord` and `putRecord`.
pub(super) fn one(body: &[u8]) -> Result<Committed, PdsError> {
    let answer: OneAnswer = parse(body)?;
    Ok(Committed {
        rev: rev(answer.commit),
        records: vec![Some(place(&answer.place.uri, &answer.place.cid)?)],
    })
}

/// Of `deleteRecord`.
pub(super) fn deleted(body: &[u8]) -> Result<Committed, PdsError> {
    // Old servers answer with nothing at all.
    let answer = if body.is_empty() { DeleteAnswer { commit: None } } else { parse(body)? };
    Ok(Committed { rev: rev(answer.commit), records: vec![None] })
}

/// Of `applyWrites` with `writes` of them.
pub(super) fn many(body: &[u8], writes: usize) -> Result<Committed, PdsError> {
    let answer: ManyAnswer = parse(body)?;
    let results = answer.results.unwrap_or_default();
    if results.len() != writes {
        return Err(PdsError::Malformed(format!("{} results for {writes} writes", results.len())));
    }
    let records = results.into_iter().map(|outcome| match (outcome.uri, outcome.cid) {
        (Some(uri), Some(cid)) => place(&uri, &cid).map(Some),
        _ => Ok(None),
    });
    Ok(Committed { rev: rev(answer.commit), records: records.collect::<Result<_, _>>()? })
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, PdsError> {
    serde_json::from_slice(body).map_err(|error| PdsError::Malformed(error.to_string()))
}

fn rev(commit: Option<Commit>) -> Option<Tid> {
    Tid::try_from(commit?.rev.as_str()).ok()
}

fn place(uri: &str, cid: &str) -> Result<(RecordUri, Cid), PdsError> {
    let uri = RecordUri::parse(uri).map_err(|error| PdsError::Malformed(error.to_string()))?;
    let cid = cid.parse().map_err(|_| PdsError::Malformed("the cid is no CID".to_owned()))?;
    Ok((uri, cid))
}
