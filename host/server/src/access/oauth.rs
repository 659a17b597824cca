//! `/oauth`: authenticates API clients and the sessions of their users (service.md, OAuth provisioning and client
//! types; auth-and-clients.md §4.1).

use std::sync::Arc;

use http::header::ORIGIN;
use http::{HeaderMap, Method};

use super::client::{X_CLIENT_KEY, X_CLIENT_SECRET};
use super::dpop::DpopError;
use super::{Access, ApiClient, ClientBuckets, Credential, DpopSession, PublicLimit, Sender};
use belvedere_protocol::atproto::Did;
use belvedere_web::http::{Error, Request};

/// A caller that may access a user's sessions.
#[derive(Clone, Debug)]
pub enum SessionAccess {
    /// The application itself, by its secret: all sessions of the user under it.
    Application(Arc<ApiClient>),
    /// One device, by its DPoP key: its own session, and the devices of its user.
    Device(Arc<ApiClient>, DpopSession),
}

/// The client that the header names, not authenticated yet. A missing or unknown key is charged as a failed proof.
fn named_client(access: &Access, sender: &Sender<'_>, headers: &HeaderMap) -> Result<Arc<ApiClient>, Error> {
    sender.check_failures()?;
    let key = headers.get(X_CLIENT_KEY).ok_or_else(|| Error::unauthorized("X-Client-Key header required"));
    let client = key
        .and_then(|key| access.clients.get(key.to_str().unwrap_or_default()).ok_or_else(invalid_credentials));
    sender.charge_if_failure(client, |_| true)
}

/// Charges one call to an authenticated client's bucket for `/oauth`, and to its parent's if it has one.
fn pay(access: &Access, client: &ApiClient) -> Result<(), Error> {
    let (buckets, defaults) = (&access.buckets, &access.rate_limit);
    let buckets = ClientBuckets { buckets, defaults, now: access.core.clock.now(), kind: "oauth:" };
    access.clients.pay(&buckets, client, 1)?;
    Ok(())
}

fn invalid_credentials() -> Error {
    Error::unauthorized("invalid client credentials")
}

impl Access {
    /// Admits a client that may provision keys and register sessions: a confidential one by its secret, a public one by
    /// the origin of its page. A secret is a proof, so the client pays; an origin proves nothing, so the sender's
    /// address pays.
    ///
    /// # Errors
    /// 401, and 429 when a bucket is empty.
    pub fn admit_application(&self, request: &Request) -> Result<Arc<ApiClient>, Error> {
        let sender = Sender::of(self, request);
        let client = named_client(self, &sender, request.headers())?;
        authenticate_and_charge(self, &sender, &client, request.headers())?;
        Ok(client)
    }
}

fn authenticate_and_charge(
    access: &Access,
    sender: &Sender<'_>,
    client: &ApiClient,
    headers: &HeaderMap,
) -> Result<(), Error> {
    sender.charge_if_failure(check_secret_or_origin(client, headers), |_| true)?;
    if client.is_public() {
        return Ok(sender.pay_for_client(&PublicLimit::APPLICATION_PAGE, &client.tenant())?);
    }
    pay(access, client)
}

fn check_secret_or_origin(client: &ApiClient, headers: &HeaderMap) -> Result<(), Error> {
    match headers.get(X_CLIENT_SECRET) {
        Some(secret) if !client.has_secret(secret) => return Err(invalid_credentials()),
        None if !client.is_public() => return Err(invalid_credentials()),
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

/// A caller that requests a client assertion.
#[derive(Clone, Debug)]
pub enum AssertionCaller {
    /// The application itself, by its secret.
    Application,
    /// A device of one of its users, by its DPoP key.
    Device(DpopSession),
    /// A page of a public client, which also has to prove by PKCE that it provisioned a key.
    Page,
}

impl Access {
    /// The client that a request names, not authenticated yet: [`Access::admit_assertion_caller`] does that once the
    /// body is read.
    ///
    /// # Errors
    /// 401, and 429 when too many proofs of the sender have failed.
    pub fn named_client(&self, request: &Request) -> Result<Arc<ApiClient>, Error> {
        named_client(self, &Sender::of(self, request), request.headers())
    }

    /// Admits a caller that may request client assertions.
    ///
    /// # Errors
    /// 401, and 429 when a bucket is empty.
    pub async fn admit_assertion_caller(
        &self,
        client: &ApiClient,
        request: &Request,
    ) -> Result<AssertionCaller, Error> {
        let sender = Sender::of(self, request);
        if let Credential::Dpop(token) = Credential::of(request.headers()) {
            let session = authenticate_device(self, &sender, client, request, token).await?;
            return Ok(AssertionCaller::Device(session));
        }
        authenticate_and_charge(self, &sender, client, request.headers())?;
        Ok(if client.is_public() { AssertionCaller::Page } else { AssertionCaller::Application })
    }

    /// Admits a caller that may access a user's sessions: the application by its secret, or one of the user's devices.
    ///
    /// # Errors
    /// 401, and 429 when a bucket is empty.
    pub async fn admit_session_access(&self, request: &Request) -> Result<SessionAccess, Error> {
        let sender = Sender::of(self, request);
        let client = named_client(self, &sender, request.headers())?;
        if let Some(secret) = request.headers().get(X_CLIENT_SECRET) {
            if !client.has_secret(secret) {
                sender.charge_failure();
                return Err(invalid_credentials());
            }
            pay(self, &client)?;
            return Ok(SessionAccess::Application(client));
        }
        let Credential::Dpop(token) = Credential::of(request.headers()) else {
            sender.charge_failure();
            return Err(Error::unauthorized("X-Client-Secret or DPoP authentication required"));
        };
        match authenticate_device(self, &sender, &client, request, token).await {
            Ok(session) => Ok(SessionAccess::Device(client, session)),
            // A second logout: applications take 404 for done, and 401 for an error.
            Err(DeviceError::Proof(DpopError::UnknownKey | DpopError::NoSession))
                if request.method() == Method::DELETE =>
            {
                Err(Error::not_found("DPoP session not found"))
            }
            Err(refused) => Err(refused.into()),
        }
    }
}

/// The reason why a device was not admitted.
enum DeviceError {
    Proof(DpopError),
    Limit(Error),
}

impl From<DeviceError> for Error {
    fn from(refused: DeviceError) -> Self {
        match refused {
            DeviceError::Proof(refused) => refused.into(),
            DeviceError::Limit(error) => error,
        }
    }
}

/// Verifies a device's proof, and returns its session. A valid proof is charged to the client, a failed one to the
/// sender.
async fn authenticate_device(
    access: &Access,
    sender: &Sender<'_>,
    client: &ApiClient,
    request: &Request,
    token: &str,
) -> Result<DpopSession, DeviceError> {
    let (method, path) = (request.method(), request.uri().path());
    let proved = access.proofs.verify_request(client, method, path, request.headers(), token).await;
    let session = sender.charge_if_failure(proved, DpopError::is_failure).map_err(DeviceError::Proof)?;
    pay(access, client).map_err(DeviceError::Limit)?;
    Ok(session)
}

impl SessionAccess {
    pub fn client(&self) -> &ApiClient {
        match self {
            Self::Application(client) | Self::Device(client, _) => client,
        }
    }

    /// Checks that it may access this user's sessions: a device only its own user's.
    ///
    /// # Errors
    /// 401.
    pub fn check_access_to(&self, did: &Did) -> Result<(), Error> {
        match self {
            Self::Device(_, session) if session.did != *did => {
                Err(Error::unauthorized("the DPoP session belongs to another account"))
            }
            _ => Ok(()),
        }
    }
}
