//! Finds the authorization server of an account: its DID document names the PDS, the PDS's metadata (RFC 9728) names
//! the authorization server, and that server's metadata (RFC 8414) names its endpoints.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use serde::Deserialize;
use url::Url;

use crate::identity::{IdentityError, Resolver};
use belvedere_protocol::atproto::Did;
use belvedere_web::net::{Client, Limits, NetError};

/// Time for which metadata is cached. It hardly ever changes, and contains no keys that rotate.
const CACHE_TIME: Duration = Duration::from_mins(10);

/// Cached PDSs and servers, each: more than the network has.
const CACHE_ENTRIES: u64 = 10_000;

/// Finds authorization servers. Cheap to clone.
#[derive(Clone)]
pub struct Discovery(Arc<Inner>);

struct Inner {
    net: Client,
    resolver: Resolver,
    /// The issuer that a PDS names.
    issuers: Cache<String, Arc<str>>,
    servers: Cache<String, Arc<AuthorizationServer>>,
}

/// The servers of an account.
#[derive(Clone, Debug)]
pub struct Account {
    /// Origin of the PDS.
    pub pds: String,
    pub server: Arc<AuthorizationServer>,
}

/// The metadata of an authorization server that is used here.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct AuthorizationServer {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub pushed_authorization_request_endpoint: String,
    pub revocation_endpoint: Option<String>,
}

#[derive(Deserialize)]
struct ProtectedResource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
}

/// The reason why no authorization server was found. The text may be sent to the client: it reveals nothing about the
/// instance.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("the DID could not be resolved: {0}")]
    Identity(#[from] IdentityError),
    #[error("the DID document names no PDS")]
    NoPds,
    #[error("the metadata of {url} could not be fetched: {error}")]
    Net { url: String, error: Arc<NetError> },
    #[error("the metadata of {0} is invalid: {1}")]
    Invalid(String, &'static str),
}

impl DiscoveryError {
    /// Whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Identity(error) => error.is_temporary(),
            Self::Net { error, .. } => !matches!(**error, NetError::Refused(_) | NetError::Malformed(_)),
            _ => false,
        }
    }
}

impl Discovery {
    pub fn new(net: Client, resolver: Resolver) -> Self {
        fn cache<V: Clone + Send + Sync + 'static>() -> Cache<String, V> {
            Cache::builder().max_capacity(CACHE_ENTRIES).time_to_live(CACHE_TIME).build()
        }
        Self(Arc::new(Inner { net, resolver, issuers: cache(), servers: cache() }))
    }

    /// Finds the PDSs of accounts.
    pub fn resolver(&self) -> &Resolver {
        &self.0.resolver
    }

    /// The PDS and the authorization server of an account. Its DID document is fetched again, because users log in after
    /// they have moved.
    ///
    /// # Errors
    /// When a document of the chain is missing, can't be fetched, or names another server than expected.
    pub async fn account(&self, did: &Did) -> Result<Account, DiscoveryError> {
        let document = self.0.resolver.refresh(did).await?;
        let pds = document.pds().ok_or(DiscoveryError::NoPds)?.to_owned();
        let issuer = self.issuer(&pds).await?;
        Ok(Account { server: self.server(&issuer).await?, pds })
    }

    /// The issuer that the PDS at an origin names.
    async fn issuer(&self, pds: &str) -> Result<Arc<str>, DiscoveryError> {
        if let Some(known) = self.0.issuers.get(pds).await {
            return Ok(known);
        }
        let url = format!("{pds}/.well-known/oauth-protected-resource");
        let found: ProtectedResource = self.fetch(&url).await?;
        if origin_of(&found.resource).as_deref() != Some(pds) {
            return Err(DiscoveryError::Invalid(url, "its resource is another server"));
        }
        // The atproto OAuth profile requires exactly one.
        let [issuer] = &found.authorization_servers[..] else {
            return Err(DiscoveryError::Invalid(url, "it does not name one authorization server"));
        };
        let issuer: Arc<str> = issuer.as_str().into();
        self.0.issuers.insert(pds.to_owned(), Arc::clone(&issuer)).await;
        Ok(issuer)
    }

    /// The metadata of an issuer.
    ///
    /// # Errors
    /// As [`Self::account`].
    pub async fn server(&self, issuer: &str) -> Result<Arc<AuthorizationServer>, DiscoveryError> {
        if let Some(known) = self.0.servers.get(issuer).await {
            return Ok(known);
        }
        let url = format!("{issuer}/.well-known/oauth-authorization-server");
        let wrong = |why| DiscoveryError::Invalid(url.clone(), why);
        // The atproto OAuth profile requires an origin. A path would let a user of a shared host publish metadata
        // there.
        if origin_of(issuer).as_deref() != Some(issuer) {
            return Err(wrong("its issuer is not an origin"));
        }
        let server: AuthorizationServer = self.fetch(&url).await?;
        if server.issuer != issuer {
            return Err(wrong("its issuer is another server"));
        }
        let secure = |endpoint: &str| {
            Url::parse(endpoint).is_ok_and(|endpoint| {
                endpoint.scheme() == "https" || (endpoint.scheme() == "http" && issuer.starts_with("http:"))
            })
        };
        let mut endpoints = vec![
            &server.authorization_endpoint,
            &server.token_endpoint,
            &server.pushed_authorization_request_endpoint,
        ];
        endpoints.extend(&server.revocation_endpoint);
        if !endpoints.into_iter().all(|endpoint| secure(endpoint)) {
            return Err(wrong("an endpoint is not an https URL"));
        }
        let server = Arc::new(server);
        self.0.servers.insert(issuer.to_owned(), Arc::clone(&server)).await;
        Ok(server)
    }

    async fn fetch<T: serde::de::DeserializeOwned>(&self, url: &str) -> Result<T, DiscoveryError> {
        let fetched = self.0.net.get_json(url, Limits::DOCUMENT_BYTES).await;
        fetched.map_err(|error| DiscoveryError::Net { url: url.to_owned(), error: Arc::new(error) })
    }
}

/// The origin of an http or https URL; `None` when the URL has a path, a query, a fragment or credentials.
pub fn origin_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let bare = matches!(url.scheme(), "http" | "https")
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    bare.then(|| url.origin().ascii_serialization())
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Discovery")
    }
}
