//! The only outbound HTTP client, guarded against SSRF: no other room connects to an address that an untrusted URL
//! names.
//!
//! A URL is checked as text ([`OutboundPolicy`]), its host is resolved once, the addresses are checked, and the
//! connection goes to one of exactly these. Only [`Client::follow`] follows redirects, and checks each hop the same
//! way. Proxies are not used, cookies are not kept, and body sizes and durations are limited.

mod dns;
mod error;
mod follow;
mod guard;
mod own_listeners;
mod pace;
mod policy;
mod rate_limit;
mod response;
mod stand_in;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::Instant;
use url::{Host, Url};

use self::dns::{Dns, ReqwestDns};
pub use self::error::NetError;
use self::error::from_reqwest;
pub use self::policy::OutboundPolicy;
use self::policy::{AddressCheck, ChosenBy, Route, redacted};
pub use self::rate_limit::{MAX_ASKED_WAIT, RATE_LIMIT_WAIT, asked_wait, asked_wait_up_to};
pub use self::response::{ArrivingResponse, BodyMemory, FetchedResponse};
pub use self::stand_in::{StandIn, StandInRequest};
use belvedere_base::error_text;

/// The `User-Agent` of all outbound requests.
pub const USER_AGENT: &str = concat!("belvedere/", env!("CARGO_PKG_VERSION"));

/// Time to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which an idle connection is kept open for reuse.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Idle connections kept for each host: a burst of DID lookups at the directory reuses them.
const POOL_PER_HOST: usize = 16;

/// Limits of one request and its response.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body, in bytes, after decompression.
    pub max_bytes: usize,
    /// From the DNS look-up to the last byte of the response.
    pub total: Duration,
}

impl Limits {
    /// For documents: [`Self::DOCUMENT_BYTES`] and ten seconds (indexing.md §7).
    pub const DOCUMENT: Self = Self { max_bytes: Self::DOCUMENT_BYTES, total: Duration::from_secs(10) };

    /// No JSON document of the protocol needs more than 1 MiB.
    pub const DOCUMENT_BYTES: usize = 1 << 20;
}

/// The body of an outbound request.
#[derive(Debug)]
pub struct OutboundBody(reqwest::Body);

impl OutboundBody {
    /// A body that is forwarded while it arrives and never buffered whole. `Content-Length` is sent when it is known.
    pub fn streamed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self(reqwest::Body::wrap(body))
    }
}

impl From<Bytes> for OutboundBody {
    fn from(bytes: Bytes) -> Self {
        Self(bytes.into())
    }
}

/// The guarded HTTP client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
    /// The chooser of the URLs that are called through this handle.
    chosen_by: ChosenBy,
    /// Whether slow responses end early, see [`Client::paced`].
    is_paced: bool,
    /// The memory for the bodies of responses, see [`Client::in_memory`].
    memory: Option<Arc<dyn BodyMemory>>,
}

#[derive(Debug)]
struct Inner {
    policy: Arc<OutboundPolicy>,
    network: Network,
}

/// The network, or what answers in its place.
#[derive(Debug)]
enum Network {
    Real(Connections),
    StandIn(Arc<dyn StandIn>),
}

#[derive(Debug)]
struct Connections {
    dns: Dns,
    /// One client for each route, because a reqwest client has one resolver and one connection pool: a connection to an
    /// exempt host is never reused for a guarded URL. There are two, and two more for each port of our own listeners.
    clients: HashMap<Route, reqwest::Client>,
}

impl Client {
    /// Needs a TLS provider ([`install_tls_provider`]) and the system's root certificates.
    ///
    /// # Errors
    /// [`NetError::Setup`] when one of them is missing.
    pub fn new(policy: OutboundPolicy) -> Result<Self, NetError> {
        let dns = Dns::new(policy.dns_server)?;
        let policy = Arc::new(policy);
        let ports = policy.own.iter().map(|listener| Some(listener.port()));
        let mut clients = HashMap::new();
        for own_port in ports.chain([None]) {
            for address_check in [AddressCheck::Guarded, AddressCheck::Exempt] {
                let route = Route { address_check, own_port };
                clients.insert(route, reqwest_client(dns.for_reqwest(&policy, route))?);
            }
        }
        Ok(Self::of(policy, Network::Real(Connections { dns, clients })))
    }

    /// A client that opens no connection: the stand-in answers the requests that the policy permits.
    pub fn standing_in(policy: OutboundPolicy, stand_in: Arc<dyn StandIn>) -> Self {
        Self::of(Arc::new(policy), Network::StandIn(stand_in))
    }

    fn of(policy: Arc<OutboundPolicy>, network: Network) -> Self {
        let inner = Arc::new(Inner { policy, network });
        Self { inner, chosen_by: ChosenBy::Other, is_paced: false, memory: None }
    }

    /// The same client, exempt from the guard for the URLs of the configuration ([`OutboundPolicy::trusted`]). Use it
    /// only for URLs in which no part comes from a client, a script or another server.
    #[must_use]
    pub fn trusted(&self) -> Self {
        Self { chosen_by: ChosenBy::Operator, ..self.clone() }
    }

    /// The same client without any exemption from the guard, not even for the hosts of `OUTBOUND_ALLOW`: for programs that
    /// may call every host of the internet.
    #[must_use]
    pub fn without_exemptions(&self) -> Self {
        Self { chosen_by: ChosenBy::Program, ..self.clone() }
    }

    /// The same client for servers that are read in bulk: a response that arrives too slowly ends with
    /// [`NetError::Timeout`] early, so that it does not hold the permit of others.
    #[must_use]
    pub fn paced(&self) -> Self {
        Self { is_paced: true, ..self.clone() }
    }

    /// The same client, whose responses take memory while they arrive. One that gets none ends with
    /// [`NetError::NoMemory`].
    #[must_use]
    pub fn in_memory(&self, memory: Arc<dyn BodyMemory>) -> Self {
        Self { memory: Some(memory), ..self.clone() }
    }

    /// Checks the text of a URL. The addresses of its host are checked when it is called.
    ///
    /// # Errors
    /// [`NetError::Refused`] for a URL that no call may go to.
    pub fn check_url(&self, url: &str) -> Result<(), NetError> {
        self.inner.policy.check(&parse(url)?, self.chosen_by).map(drop)
    }

    /// GETs a URL and reads the whole response, whatever its status.
    ///
    /// # Errors
    /// When the policy refuses the URL, no response arrives, or the response exceeds the limits.
    pub async fn get(&self, url: &str, limits: Limits) -> Result<FetchedResponse, NetError> {
        self.request(Method::GET, url, HeaderMap::new(), None, limits).await
    }

    /// Sends a request and reads the whole response, whatever its status.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn request(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
        limits: Limits,
    ) -> Result<FetchedResponse, NetError> {
        self.send(method, url, headers, body.map(OutboundBody::from), limits).await
    }

    /// Like [`Self::request`], with a body that may be a stream.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<OutboundBody>,
        limits: Limits,
    ) -> Result<FetchedResponse, NetError> {
        self.open(method, url, headers, body, limits).await?.complete().await
    }

    /// Like [`Self::send`], but returns when the head of the response has arrived. The limits also apply to the body.
    ///
    /// # Errors
    /// As [`Self::get`]; [`NetError::TooLarge`] at once if the head announces a body that is too large.
    pub async fn open(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<OutboundBody>,
        limits: Limits,
    ) -> Result<ArrivingResponse, NetError> {
        let url = parse(url)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NetError::Refused(format!("{}: the scheme is not https", redacted(&url))));
        }
        let route = self.inner.policy.check(&url, self.chosen_by)?;
        let mut response = match &self.inner.network {
            Network::StandIn(stand_in) => {
                let body = match body {
                    Some(body) => Some(body.0.collect().await.map_err(from_reqwest)?.to_bytes()),
                    None => None,
                };
                stand_in.answer(StandInRequest { method, url, headers, body })?.into_reqwest()
            }
            Network::Real(Connections { clients, .. }) => {
                let client = clients.get(&route);
                let client = client.ok_or_else(|| NetError::Setup("no client for the route".to_owned()))?;
                let mut request = client.request(method, url).headers(headers).timeout(limits.total);
                if let Some(body) = body {
                    request = request.body(body.0);
                }
                request.send().await.map_err(from_reqwest)?
            }
        };
        if response.content_length().is_some_and(|length| length > limits.max_bytes as u64) {
            return Err(NetError::TooLarge(limits.max_bytes));
        }
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let max_bytes = limits.max_bytes;
        let paced_since = self.is_paced.then(Instant::now);
        let memory = self.memory.clone();
        Ok(ArrivingResponse { status, headers, body: response, arrived: 0, max_bytes, paced_since, memory })
    }

    /// GETs a URL and parses its JSON, of at most `max_bytes` bytes.
    ///
    /// # Errors
    /// As [`Self::get`]; [`NetError::Status`] for a status other than 2xx, [`NetError::Malformed`] for other JSON.
    pub async fn get_json<T: DeserializeOwned>(&self, url: &str, max_bytes: usize) -> Result<T, NetError> {
        self.get_document(url, max_bytes).await?.json()
    }

    /// GET of a JSON document of at most `max_bytes`, with any status.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_document(&self, url: &str, max_bytes: usize) -> Result<FetchedResponse, NetError> {
        let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let limits = Limits { max_bytes, ..Limits::DOCUMENT };
        self.request(Method::GET, url, accept, None, limits).await
    }

    /// The TXT records of `name`, the strings of each joined. Empty when there are none.
    ///
    /// # Errors
    /// [`NetError::Dns`] when no name server gives an answer.
    pub async fn dns_txt(&self, name: &str) -> Result<Vec<String>, NetError> {
        match &self.inner.network {
            Network::Real(connections) => connections.dns.txt(name).await,
            Network::StandIn(stand_in) => stand_in.dns_txt(name),
        }
    }

    /// Opens a TCP connection to the host of a ws, wss, http or https URL under the policy, for callers with a protocol
    /// of their own (Jetstream). The caller adds TLS.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn connect(&self, url: &Url) -> Result<TcpStream, NetError> {
        let Inner { policy, network } = &*self.inner;
        let Network::Real(Connections { dns, .. }) = network else {
            return Err(NetError::Transport("there is no network".to_owned()));
        };
        let route = policy.check(url, self.chosen_by)?;
        let port = url.port_or_known_default().unwrap_or(443);
        let addresses = match url.host() {
            Some(Host::Ipv4(ip)) => vec![ip.into()],
            Some(Host::Ipv6(ip)) => vec![ip.into()],
            Some(Host::Domain(name)) => dns.addresses(name, policy, route).await?,
            None => Vec::new(),
        };
        let mut last = NetError::Dns(redacted(url));
        for ip in addresses {
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((ip, port))).await {
                Ok(Ok(stream)) => {
                    // Frames are small and should not wait for each other. An error only costs latency.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = NetError::Transport(error.to_string()),
                Err(_) => last = NetError::Timeout,
            }
        }
        Err(last)
    }
}

/// Installs the process's TLS provider. Called once in `main`; further calls do nothing.
pub fn install_tls_provider() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[expect(clippy::disallowed_methods, reason = "all other outbound requests go through this client")]
fn reqwest_client(dns: ReqwestDns) -> Result<reqwest::Client, NetError> {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .dns_resolver(dns)
        // reqwest would follow redirects without the URL check, and a proxy would resolve names without the guard.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_PER_HOST)
        .build()
        .map_err(|error| NetError::Setup(error_text::with_causes(&error)))
}

fn parse(url: &str) -> Result<Url, NetError> {
    Url::parse(url).map_err(|error| NetError::Refused(format!("not a URL: {error}")))
}
