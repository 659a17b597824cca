//! `/oauth`: which application is calling, and what it has of a user (service.md, OAuth provisioning and client types;
//! auth-and-clients.md §4.1).

use std::sync::Arc;

use http::header::ORIGIN;
use http::{HeaderMap, Method};

use super::client::{X_CLIENT_KEY, X_CLIENT_SECRET};
use super::dpop::Refused;
use super::rate_limit::Limit;
use super::{ApiClient, Credential, DpopSession};
use crate::app::App;
use crate::atproto::Did;
use crate::http::{Error, Request};

/// Who asks about a user's sessions.
#[derive(Clone, Debug)]
pub enum Holder {
    /// The application itself, by its secret: all sessions of the user under it.
    Application(Arc<ApiClient>),
    /// One device, by its DPoP key: its own session, and the list of its user's.
    Device(Arc<ApiClient>, DpopSession),
}

/// The client that the header names, which pays one call from a bucket of its own.
///
/// # Errors
/// 401 when there is none or it isn't known, 429 when the bucket is empty.
fn client(app: &App, headers: &HeaderMap) -> Result<Arc<ApiClient>, Error> {
    let key = headers.get(X_CLIENT_KEY).ok_or_else(|| Error::unauthorized("X-Client-Key header required"))?;
    let client = app.clients.get(key.to_str().unwrap_or_default()).ok_or_else(invalid)?;
    // Keys are made for whoever asks in a public client's name: what is made must be bounded.
    let limit: Limit = client.limit(&app.config.rate_limit);
    app.buckets.take(&format!("oauth:{}", client.key), limit, 1, app.clock.now())?;
    Ok(client)
}

fn invalid() -> Error {
    Error::unauthorized("invalid client credentials")
}

/// An application that may provision keys and register sessions: a confidential one with its secret, a public one from
/// its own pages.
///
/// # Errors
/// 401.
pub fn admit_application(app: &App, headers: &HeaderMap) -> Result<Arc<ApiClient>, Error> {
    let client = client(app, headers)?;
    prove_application(&client, headers)?;
    Ok(client)
}

fn prove_application(client: &ApiClient, headers: &HeaderMap) -> Result<(), Error> {
    match headers.get(X_CLIENT_SECRET) {
        Some(secret) if !client.has_secret(secret) => return Err(invalid()),
        None if !client.is_public() => return Err(invalid()),
        _ => {}
    }
    if client.is_public() && !client.allowed_origins.is_empty() {
        let origin = headers
            .get(ORIGIN)
            .ok_or_else(|| Error::unauthorized("Origin header required for public clients"))?;
        if !client.allowed_origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()) {
            return Err(Error::unauthorized("origin not allowed for this client"));
        }
    }
    Ok(())
}

/// Who asks for an assertion of a client.
#[derive(Clone, Debug)]
pub enum Minter {
    /// The application itself, by its secret.
    Application,
    /// One of its users' devices.
    Device(DpopSession),
    /// A page of a public client's, which has to prove a key of its own.
    Page,
}

/// The client that a request names, not proved yet.
///
/// # Errors
/// 401, and 429 when its bucket is empty.
pub fn admit_named(app: &App, headers: &HeaderMap) -> Result<Arc<ApiClient>, Error> {
    client(app, headers)
}

/// Whoever may have an assertion made.
///
/// # Errors
/// 401.
pub async fn admit_minter(app: &App, client: &ApiClient, request: &Request) -> Result<Minter, Error> {
    if let Credential::Dpop(token) = Credential::of(request.headers()) {
        let (method, path) = (request.method(), request.uri().path());
        let session = app.proofs.verify_request(client, method, path, request.headers(), token).await?;
        return Ok(Minter::Device(session));
    }
    prove_application(client, request.headers())?;
    Ok(if client.is_public() { Minter::Page } else { Minter::Application })
}

/// Whoever may ask about a user's sessions: the application with its secret, or one of the user's devices.
///
/// # Errors
/// 401.
pub async fn admit_holder(app: &App, request: &Request) -> Result<Holder, Error> {
    let client = client(app, request.headers())?;
    if let Some(secret) = request.headers().get(X_CLIENT_SECRET) {
        return if client.has_secret(secret) { Ok(Holder::Application(client)) } else { Err(invalid()) };
    }
    let Credential::Dpop(token) = Credential::of(request.headers()) else {
        return Err(Error::unauthorized("X-Client-Secret or DPoP authentication required"));
    };
    let (method, path) = (request.method(), request.uri().path());
    match app.proofs.verify_request(&client, method, path, request.headers(), token).await {
        Ok(session) => Ok(Holder::Device(client, session)),
        // Logging out twice: to applications 404 says that it is done, and 401 that something is wrong.
        Err(Refused::UnknownKey | Refused::NoSession) if method == Method::DELETE => {
            Err(Error::not_found("DPoP session not found"))
        }
        Err(refused) => Err(refused.into()),
    }
}

impl Holder {
    pub fn client(&self) -> &ApiClient {
        match self {
            Self::Application(client) | Self::Device(client, _) => client,
        }
    }

    /// Whether it may ask about this user: a device about its own alone.
    ///
    /// # Errors
    /// 401.
    pub fn may_see(&self, did: &Did) -> Result<(), Error> {
        match self {
            Self::Device(_, session) if session.did != *did => {
                Err(Error::unauthorized("the DPoP session belongs to another account"))
            }
            _ => Ok(()),
        }
    }
}
