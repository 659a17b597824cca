//! The reason why a repo could not be read, classified by whether another attempt may succeed (admin-api.md §12.3).

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use crate::identity::IdentityError;
use crate::indexing::fetch;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::index::AccountStatus;
use belvedere_web::net::{self, FetchedResponse, NetError, asked_wait, asked_wait_up_to};

/// Longest cooldown of a host that fails.
pub(super) const MAX_WAIT: Duration = net::MAX_ASKED_WAIT;

/// Longest wait after a 429: the usual window of PDSs, in which some thousand requests are allowed.
pub(super) const MAX_RATE_LIMIT_WAIT: Duration = Duration::from_mins(5);

/// The wait for a permit of this host's resolver.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Characters of an error that are kept for the list of errors.
const MAX_TEXT_CHARS: usize = 220;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    DnsFailure,
    ConnectionFailed,
    Timeout,
    PdsServerError,
    RateLimited,
    DidDocNotFound,
    DidDocForbidden,
    DidDocInvalid,
    RepoNotFound,
    RepoDeactivated,
    RepoTakendown,
    Other,
}

impl ErrorKind {
    /// Those that another attempt may get over come first.
    pub const ALL: [Self; 12] = [
        Self::DnsFailure,
        Self::ConnectionFailed,
        Self::Timeout,
        Self::PdsServerError,
        Self::RateLimited,
        Self::DidDocNotFound,
        Self::DidDocForbidden,
        Self::DidDocInvalid,
        Self::RepoNotFound,
        Self::RepoDeactivated,
        Self::RepoTakendown,
        Self::Other,
    ];

    /// The kind with this name; `None` for an unknown one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::DnsFailure => "dns_failure",
            Self::ConnectionFailed => "connection_failed",
            Self::Timeout => "timeout",
            Self::PdsServerError => "pds_server_error",
            Self::RateLimited => "rate_limited",
            Self::DidDocNotFound => "did_doc_not_found",
            Self::DidDocForbidden => "did_doc_forbidden",
            Self::DidDocInvalid => "did_doc_invalid",
            Self::RepoNotFound => "repo_not_found",
            Self::RepoDeactivated => "repo_deactivated",
            Self::RepoTakendown => "repo_takendown",
            Self::Other => "other",
        }
    }

    /// Whether another attempt may succeed. Such an error is a host's, not a repo's.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::DnsFailure
                | Self::ConnectionFailed
                | Self::Timeout
                | Self::PdsServerError
                | Self::RateLimited
        )
    }
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) text: String,
    /// The time that the server asked to wait.
    pub(super) wait: Option<Duration>,
    /// The account's status in the answer. A repo that its PDS does not know may be moving to another PDS, so it counts
    /// as deactivated.
    pub(super) status: Option<AccountStatus>,
    /// Another thing that does not exist according to the answer.
    pub(super) missing: Option<Missing>,
}

/// A thing that a server says it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Record,
    Method,
    /// The status of a router that does not know the path, without the name of an error. A proxy sends it too, while its
    /// server restarts.
    Path,
}

impl Missing {
    /// Servers name an unknown method in several ways, or send the status of their router.
    fn of(status: StatusCode, error: &str, message: &str) -> Option<Self> {
        let is_of_router = matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        );
        if fetch::denies_record(status, error, message) {
            return Some(Self::Record);
        }
        let message = message.to_ascii_lowercase();
        match error {
            "RepoNotFound" | "RecordNotFound" => None,
            "MethodNotImplemented" | "XRPCNotSupported" | "MethodNotFound" | "UnknownMethod" => {
                Some(Self::Method)
            }
            _ if is_of_router => Some(Self::Path),
            _ if status == StatusCode::BAD_REQUEST => {
                let names =
                    ["method not implemented", "unknown method", "method not found", "method not supported"];
                names.iter().any(|name| message.contains(name)).then_some(Self::Method)
            }
            _ => None,
        }
    }
}

/// Counts the failed attempts at a repo or a DID.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    failed: u32,
}

impl Attempts {
    /// Counts a failure that another attempt may overcome. Returns whether to try again: at most `max` attempts, of
    /// which those that were answered with 429 don't count. Their host limits them ([`super::rate_limit`]).
    pub(super) fn again(&mut self, failure: &Failure, max: u32) -> bool {
        if failure.kind == ErrorKind::RateLimited {
            return true;
        }
        self.failed += 1;
        self.failed < max
    }
}

#[derive(Debug, Default, Deserialize)]
struct XrpcError {
    #[serde(default)]
    error: String,
    #[serde(default)]
    message: String,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, text: impl AsRef<str>) -> Self {
        let text = text.as_ref().chars().take(MAX_TEXT_CHARS).collect();
        Self { kind, text, wait: None, status: None, missing: None }
    }

    pub(super) fn other(text: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Other, text)
    }

    /// The failure of a first request to a server that was sent twice. A router that denies the path each time has no
    /// such method.
    pub(super) fn repeated(mut self) -> Self {
        if self.missing == Some(Missing::Path) {
            self.missing = Some(Missing::Method);
        }
        self
    }

    /// A request without a response.
    pub(super) fn of_net(error: &NetError) -> Self {
        let kind = match error {
            NetError::Dns(_) => ErrorKind::DnsFailure,
            NetError::Timeout => ErrorKind::Timeout,
            NetError::Transport(_) => ErrorKind::ConnectionFailed,
            NetError::Malformed(_) => ErrorKind::PdsServerError,
            NetError::Status(status) => of_status(*status),
            NetError::Refused(_)
            | NetError::TooLarge(_)
            | NetError::NoMemory
            | NetError::Redirects(_)
            | NetError::Setup(_) => ErrorKind::Other,
        };
        Self::new(kind, error.to_string())
    }

    /// A response with another status than 2xx.
    pub(super) fn of_response(response: &FetchedResponse, now: Timestamp) -> Self {
        let XrpcError { error, message } = serde_json::from_slice(&response.body).unwrap_or_default();
        let kind = match error.as_str() {
            _ if response.status.is_server_error() => of_status(response.status),
            "RepoNotFound" => ErrorKind::RepoNotFound,
            _ if message.contains("Could not find repo") => ErrorKind::RepoNotFound,
            "RepoDeactivated" => ErrorKind::RepoDeactivated,
            "RepoTakendown" | "RepoSuspended" => ErrorKind::RepoTakendown,
            _ => of_status(response.status),
        };
        let status = match kind {
            ErrorKind::RepoNotFound | ErrorKind::RepoDeactivated => Some(AccountStatus::Deactivated),
            ErrorKind::RepoTakendown if error == "RepoSuspended" => Some(AccountStatus::Suspended),
            ErrorKind::RepoTakendown => Some(AccountStatus::TakenDown),
            _ => None,
        };
        let missing = Missing::of(response.status, &error, &message);
        let named = [error, message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
        let mut failure = Self::new(kind, format!("{} {}", response.status, named.join(": ")).trim_end());
        (failure.status, failure.missing) = (status, missing);
        if kind == ErrorKind::RateLimited {
            failure.wait = asked_wait_up_to(MAX_RATE_LIMIT_WAIT, &response.headers, now);
        } else if kind.is_retryable() {
            failure.wait = asked_wait(&response.headers, now);
        }
        failure
    }

    /// A DID that did not resolve.
    pub(super) fn of_identity(error: &IdentityError) -> Self {
        let text = error.to_string();
        match error {
            IdentityError::NotFound => Self::new(ErrorKind::DidDocNotFound, text),
            IdentityError::Tombstoned => {
                let status = Some(AccountStatus::Deleted);
                Self { status, ..Self::new(ErrorKind::DidDocNotFound, text) }
            }
            IdentityError::Unsupported | IdentityError::Invalid(_) => {
                Self::new(ErrorKind::DidDocInvalid, text)
            }
            IdentityError::Unavailable(net) => match &**net {
                NetError::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    Self::new(ErrorKind::DidDocForbidden, text)
                }
                net => Self::of_net(net),
            },
            // This host's own limit, which ends with the next look-up.
            IdentityError::Busy(_) => {
                Self { wait: Some(BUSY_WAIT), ..Self::new(ErrorKind::RateLimited, text) }
            }
            IdentityError::RateLimited(wait) => {
                Self { wait: Some(*wait), ..Self::new(ErrorKind::RateLimited, text) }
            }
            // Unreachable: a backfill looks up what is not cached.
            IdentityError::NotCached => Self::new(ErrorKind::Other, text),
        }
    }
}

fn of_status(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::TOO_MANY_REQUESTS => ErrorKind::RateLimited,
        StatusCode::REQUEST_TIMEOUT => ErrorKind::Timeout,
        status if status.is_server_error() => ErrorKind::PdsServerError,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests;
