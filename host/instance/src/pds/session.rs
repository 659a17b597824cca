//! Finds sessions with users' PDSs, and sends requests with their credentials.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderValue};

use super::{BoundSession, EffectiveScopes, PdsError, Vault};
use crate::config::Secret;
use crate::oauth::DpopRequest;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::StoreError;
use belvedere_web::net::{Client, FetchedResponse, OutboundBody};

/// A session with a PDS: the right to write to one repo.
#[derive(Clone, Debug)]
pub struct Session {
    pub did: Did,
    /// Origin of the PDS, without a trailing slash.
    pub endpoint: String,
    pub credential: Credential,
    /// The effective scopes; `None` for a session that no API client registered, for which only the PDS checks.
    pub permits: Option<Arc<EffectiveScopes>>,
}

impl Session {
    fn of_stand_in(did: Did, endpoint: &str) -> Self {
        let credential = Credential::Bearer(Secret::new("of a stand-in".to_owned()));
        Self { did, endpoint: endpoint.to_owned(), credential, permits: None }
    }
}

/// The credential of a session. `Debug` does not reveal it.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The access token of `com.atproto.server.createSession`.
    Bearer(Secret<String>),
    /// The tokens of an OAuth session, bound to its DPoP key.
    Dpop(Arc<BoundSession>),
}

impl Credential {
    /// Sends a request with the credential.
    pub(super) async fn send(
        &self,
        net: &Client,
        mut request: DpopRequest<'_>,
    ) -> Result<FetchedResponse, PdsError> {
        match self {
            Self::Bearer(token) => {
                request.headers.insert(AUTHORIZATION, bearer(token)?);
                let DpopRequest { method, url, headers, body, limits } = request;
                Ok(net.request(method, url, headers, body, limits).await?)
            }
            Self::Dpop(bound) => bound.send(&request).await,
        }
    }

    /// Sends a request whose body is a stream and can't be repeated. `probe` is a small request that may be sent first.
    pub(super) async fn send_stream(
        &self,
        net: &Client,
        probe: &DpopRequest<'_>,
        mut request: DpopRequest<'_>,
        body: OutboundBody,
    ) -> Result<FetchedResponse, PdsError> {
        let limits = request.limits;
        match self {
            Self::Bearer(token) => {
                request.headers.insert(AUTHORIZATION, bearer(token)?);
                Ok(net.send(request.method, request.url, request.headers, Some(body), limits).await?)
            }
            Self::Dpop(bound) => bound.send_stream(probe, request, body, limits).await,
        }
    }
}

/// The value of the `Authorization` header.
fn bearer(token: &Secret<String>) -> Result<HeaderValue, PdsError> {
    let value = HeaderValue::try_from(format!("Bearer {}", token.reveal()));
    let mut value = value.map_err(|_| PdsError::Credential)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Selects a session.
#[derive(Clone, Copy, Debug)]
pub enum SessionSelector<'a> {
    /// The session with this id.
    Id(&'a str),
    /// The newest session of an account: of those that an API client (by id) registered, or of the logins at the
    /// instance.
    Account { did: &'a Did, client: Option<&'a str> },
}

/// The source of sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Sessions {
    /// A fixed set, by account, whose DID is also the id of its session.
    Fixed(Arc<HashMap<Did, Arc<Session>>>),
    Stored(Vault),
    /// Each account has a session with the PDS of this origin, whose DID is also the id of it. The credential is worth nothing: for
    /// tests of scripts, in which a stand-in answers.
    Everyone {
        endpoint: Arc<str>,
    },
}

impl Sessions {
    /// No sessions.
    pub fn none() -> Self {
        Self::fixed([])
    }

    /// A fixed set of sessions.
    pub fn fixed(sessions: impl IntoIterator<Item = Session>) -> Self {
        let sessions = sessions.into_iter().map(|session| (session.did.clone(), Arc::new(session)));
        Self::Fixed(Arc::new(sessions.collect()))
    }

    /// Finds a session.
    ///
    /// # Errors
    /// When the sessions can't be read.
    pub async fn find(&self, which: SessionSelector<'_>) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(match (self, which) {
            (Self::Fixed(sessions), SessionSelector::Account { did, .. }) => sessions.get(did).cloned(),
            (Self::Fixed(sessions), SessionSelector::Id(id)) => {
                Did::try_from(id).ok().and_then(|did| sessions.get(&did).cloned())
            }
            (Self::Stored(vault), SessionSelector::Id(id)) => vault.by_id(id).await?.map(Arc::new),
            (Self::Stored(vault), SessionSelector::Account { did, client }) => {
                vault.newest(did, client).await?.map(Arc::new)
            }
            (Self::Everyone { endpoint }, SessionSelector::Account { did, .. }) => {
                Some(Arc::new(Session::of_stand_in(did.clone(), endpoint)))
            }
            (Self::Everyone { endpoint }, SessionSelector::Id(id)) => {
                Did::try_from(id).ok().map(|did| Arc::new(Session::of_stand_in(did, endpoint)))
            }
        })
    }
}
