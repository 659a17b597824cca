//! Who has a session with their PDS.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderValue};

use super::{BoundSession, PdsError, Permits, Vault};
use crate::atproto::Did;
use crate::config::Secret;
use crate::net::{Client, Fetched, Outgoing};
use crate::oauth::Parcel;
use crate::store::StoreError;

/// The right to write to one repo.
#[derive(Clone, Debug)]
pub struct Session {
    pub did: Did,
    /// Origin of the PDS, without a trailing slash.
    pub endpoint: String,
    pub credential: Credential,
    /// What it may do; `None` where the PDS alone judges: a session that no API client registered.
    pub permits: Option<Arc<Permits>>,
}

/// What proves the right. `Debug` does not show it.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The access token of `com.atproto.server.createSession`.
    Bearer(Secret<String>),
    /// Tokens of an OAuth session, bound to its key.
    Dpop(Arc<BoundSession>),
}

impl Credential {
    /// Sends a request with the proof of the right.
    pub(super) async fn send(&self, net: &Client, mut parcel: Parcel<'_>) -> Result<Fetched, PdsError> {
        match self {
            Self::Bearer(token) => {
                parcel.headers.insert(AUTHORIZATION, bearer(token)?);
                let Parcel { method, url, headers, body, limits } = parcel;
                Ok(net.request(method, url, headers, body, limits).await?)
            }
            Self::Dpop(bound) => bound.send(&parcel).await,
        }
    }

    /// Sends a request whose body can be sent once; `ahead` is a small one that may go before it.
    pub(super) async fn send_once(
        &self,
        net: &Client,
        ahead: &Parcel<'_>,
        mut parcel: Parcel<'_>,
        body: Outgoing,
    ) -> Result<Fetched, PdsError> {
        let limits = parcel.limits;
        match self {
            Self::Bearer(token) => {
                parcel.headers.insert(AUTHORIZATION, bearer(token)?);
                Ok(net.send(parcel.method, parcel.url, parcel.headers, Some(body), limits).await?)
            }
            Self::Dpop(bound) => bound.send_once(ahead, parcel, body, limits).await,
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

/// Which session is meant.
#[derive(Clone, Copy, Debug)]
pub enum SessionOf<'a> {
    /// The one that the caller's proof belongs to.
    Id(&'a str),
    /// The newest of an account: of the sessions that an API client (by id) registered, or of the instance's own logins.
    Account { did: &'a Did, client: Option<&'a str> },
}

/// The sessions that there are. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Sessions {
    /// These and no others, by account.
    Fixed(Arc<HashMap<Did, Arc<Session>>>),
    Stored(Vault),
}

impl Sessions {
    /// Nobody has one.
    pub fn none() -> Self {
        Self::fixed([])
    }

    /// These and no others.
    pub fn fixed(sessions: impl IntoIterator<Item = Session>) -> Self {
        let sessions = sessions.into_iter().map(|session| (session.did.clone(), Arc::new(session)));
        Self::Fixed(Arc::new(sessions.collect()))
    }

    /// # Errors
    /// When the sessions can't be read.
    pub async fn find(&self, which: SessionOf<'_>) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(match (self, which) {
            (Self::Fixed(sessions), SessionOf::Account { did, .. }) => sessions.get(did).cloned(),
            (Self::Fixed(_), SessionOf::Id(_)) => None,
            (Self::Stored(vault), SessionOf::Id(id)) => vault.by_id(id).await?.map(Arc::new),
            (Self::Stored(vault), SessionOf::Account { did, client }) => {
                vault.newest(did, client).await?.map(Arc::new)
            }
        })
    }
}
