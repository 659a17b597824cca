//! Errors of requests to other servers. No text contains the query or the credentials of a URL.

use std::error::Error as _;

use http::StatusCode;

use belvedere_base::error_text;

#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The policy does not permit the URL, or any address of its host.
    #[error("refused to connect: {0}")]
    Refused(String),
    #[error("could not resolve {0}")]
    Dns(String),
    #[error("timed out")]
    Timeout,
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// There was no memory for the body.
    #[error("no memory is free for the answer")]
    NoMemory,
    /// A response with a status other than 2xx.
    #[error("the server answered {0}")]
    Status(StatusCode),
    /// More redirects than the caller allows.
    #[error("more than {0} redirects")]
    Redirects(u8),
    #[error("unexpected response: {0}")]
    Malformed(String),
    #[error("connection failed: {0}")]
    Transport(String),
    /// The client could not be built.
    #[error("the HTTP client can't start: {0}")]
    Setup(String),
}

/// Converts the error without its URL, whose query may contain secrets.
pub(super) fn from_reqwest(error: reqwest::Error) -> NetError {
    let error = error.without_url();
    let mut cause = error.source();
    while let Some(inner) = cause {
        match inner.downcast_ref::<NetError>() {
            Some(NetError::Refused(why)) => return NetError::Refused(why.clone()),
            Some(NetError::Dns(why)) => return NetError::Dns(why.clone()),
            _ => cause = inner.source(),
        }
    }
    if error.is_timeout() { NetError::Timeout } else { NetError::Transport(error_text::with_causes(&error)) }
}
