//! Reads and writes operations at the PLC directory (`PLC_URL`).

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::Signed;
use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::Did;
use belvedere_web::net::{self, FetchedResponse, Limits, NetError, RATE_LIMIT_WAIT, asked_wait};

/// Time that one request waits for a directory that asks to come back later. The operator's own request is open
/// meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Bytes of an operation. The directory's own limit is 7,500.
const MAX_BYTES: usize = 64 << 10;

/// Characters of the directory's message that are passed on.
const MAX_MESSAGE: usize = 300;

/// The reason why the directory could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PlcError {
    #[error("the PLC directory does not answer: {0}")]
    Net(#[from] NetError),
    /// It asks to come back after this time.
    #[error("the PLC directory is limiting this server: try again in {} seconds", .0.as_secs())]
    RateLimited(Duration),
    #[error("the PLC directory answered {0}: {1}")]
    Refused(StatusCode, String),
    #[error("the PLC directory does not know {0}")]
    Unknown(Did),
}

/// The client of the directory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The trusted client: the operator may configure a private address.
    net: net::Client,
    /// Without a trailing slash.
    url: String,
    clock: Clock,
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    message: String,
}

impl Directory {
    /// `url` is the URL of the directory.
    pub fn new(net: &net::Client, url: &str, clock: Clock) -> Self {
        Self { net: net.trusted(), url: url.trim_end_matches('/').to_owned(), clock }
    }

    /// The last operation of a DID.
    ///
    /// # Errors
    /// When the directory does not know the DID or does not answer.
    pub async fn last(&self, did: &Did) -> Result<Value, PlcError> {
        self.last_within(did, MAX_WAIT).await
    }

    /// Like [`Self::last`], without waiting for a directory that asks to come back later.
    ///
    /// # Errors
    /// As [`Self::last`].
    pub async fn last_now(&self, did: &Did) -> Result<Value, PlcError> {
        self.last_within(did, Duration::ZERO).await
    }

    async fn last_within(&self, did: &Did, max_wait: Duration) -> Result<Value, PlcError> {
        let url = format!("{}/{did}/log/last", self.url);
        let fetched = self.request(Method::GET, &url, None, max_wait).await?;
        match fetched.status {
            status if status.is_success() => serde_json::from_slice(&fetched.body)
                .map_err(|error| PlcError::Net(NetError::Malformed(error.to_string()))),
            StatusCode::NOT_FOUND => Err(PlcError::Unknown(did.clone())),
            _ => Err(refused(&fetched)),
        }
    }

    /// Sends an operation. One that the directory has already is a success: it may have accepted an earlier attempt
    /// whose answer was lost.
    ///
    /// # Errors
    /// When the directory refuses the operation or does not answer.
    pub async fn submit(&self, signed: &Signed) -> Result<(), PlcError> {
        let url = format!("{}/{}", self.url, signed.did);
        let body = Bytes::from(signed.operation.to_string());
        let error = match self.request(Method::POST, &url, Some(body), MAX_WAIT).await {
            Ok(fetched) if fetched.status.is_success() => return Ok(()),
            Ok(fetched) => refused(&fetched),
            Err(error) => error,
        };
        match (&error, self.last(&signed.did).await) {
            (PlcError::Net(_) | PlcError::Refused(..), Ok(last)) if last == signed.operation => Ok(()),
            _ => Err(error),
        }
    }

    /// Sends a request, and waits as long as the directory asks for, up to `max_wait` in all.
    async fn request(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
        max_wait: Duration,
    ) -> Result<FetchedResponse, PlcError> {
        let deadline = Instant::now() + max_wait;
        let limits = Limits { max_bytes: MAX_BYTES, ..Limits::DOCUMENT };
        loop {
            let mut headers = HeaderMap::new();
            if body.is_some() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            let fetched = self.net.request(method.clone(), url, headers, body.clone(), limits).await?;
            if fetched.status != StatusCode::TOO_MANY_REQUESTS {
                return Ok(fetched);
            }
            let wait = asked_wait(&fetched.headers, self.clock.now()).unwrap_or(RATE_LIMIT_WAIT);
            if Instant::now() + wait > deadline {
                return Err(PlcError::RateLimited(wait));
            }
            tokio::time::sleep(wait).await;
        }
    }
}

fn refused(fetched: &FetchedResponse) -> PlcError {
    let ErrorBody { message } = serde_json::from_slice(&fetched.body).unwrap_or_default();
    PlcError::Refused(fetched.status, message.chars().take(MAX_MESSAGE).collect())
}
