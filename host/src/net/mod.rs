//! The only outbound client, guarded: no room but this one opens a connection to an address that somebody else chose.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;

/// Where requests may go.
#[derive(Clone, Debug, Default)]
pub struct OutboundPolicy {
    /// Loopback addresses and plain http to them (when PUBLIC_URL is loopback).
    pub allow_loopback: bool,
    /// Hosts (`name` or `name:port`) from OUTBOUND_ALLOW: exempt from the address guard and from https.
    pub allow: Vec<String>,
    /// URLs from the configuration itself (JETSTREAM_URL, PLC_URL, RELAY_URL): the operator's own words, so their
    /// origins are exempt as `allow` is.
    pub trusted: Vec<Url>,
    /// DNS server to ask in place of the system's.
    pub dns_server: Option<SocketAddr>,
}

/// Bounds of one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body, after decompression.
    pub max_bytes: usize,
    /// From the first DNS question to the last byte.
    pub total: Duration,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The URL or every address of its host is off limits.
    #[error("refused to connect: {0}")]
    Refused(String),
    #[error("could not resolve {0}")]
    Dns(String),
    #[error("timed out")]
    Timeout,
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// An answer with a status that is no success.
    #[error("the server answered {0}")]
    Status(StatusCode),
    #[error("the answer is not what was asked for: {0}")]
    Malformed(String),
    #[error("connection failed: {0}")]
    Transport(String),
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client(());

impl Client {
    pub fn new(_policy: OutboundPolicy) -> Result<Self, NetError> {
        todo!()
    }

    /// GETs a URL and reads the whole answer, whatever its status.
    pub async fn get(&self, _url: &str, _limits: Limits) -> Result<Fetched, NetError> {
        todo!()
    }

    /// GETs a URL, expects 2xx and JSON of at most `cap` bytes.
    pub async fn get_json<T: DeserializeOwned>(&self, _url: &str, _cap: usize) -> Result<T, NetError> {
        todo!()
    }

    /// The TXT records of `name`, the strings of each joined. Empty when there are none.
    pub async fn dns_txt(&self, _name: &str) -> Result<Vec<String>, NetError> {
        todo!()
    }

    /// Opens a TCP connection to the host of a ws, wss, http or https URL under the policy, for clients that bring
    /// their own protocol (Jetstream). TLS is the caller's.
    pub async fn connect(&self, _url: &Url) -> Result<tokio::net::TcpStream, NetError> {
        todo!()
    }
}

/// Installs the process's TLS provider. Called once in `main`; further calls do nothing.
pub fn install_tls_provider() {
    // An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
