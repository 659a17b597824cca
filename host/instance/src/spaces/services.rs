//! Calls services that a DID document names, with tokens of this instance.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use serde_json::Value;

use crate::core::Core;
use crate::identity::IdentityError;
use crate::service_identity::{ServiceIdentity, TokenError};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_protocol::spaces::r10::token::HOST;
use belvedere_web::net::{FetchedResponse, Limits, NetError};

pub(super) const PDS: &str = "#atproto_pds";

/// Calls services. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Services {
    core: Core,
    identity: ServiceIdentity,
}

/// The reason why a service did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    #[error("its DID document can't be read: {0}")]
    Identity(#[from] IdentityError),
    #[error("its DID document has no service {0} with a usable address")]
    NoService(String),
    #[error("this server can't sign the call: {0}")]
    Token(#[from] TokenError),
    #[error("it can't be reached: {0}")]
    Net(#[from] NetError),
    #[error("it answers with the status {0}")]
    Status(u16),
    #[error("its answer is malformed")]
    Malformed,
}

/// A call of a method at a service.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceCall<'a> {
    /// The DID of the service, with its fragment or without: the audience of the token.
    pub service: &'a str,
    pub endpoint: &'a str,
    pub method: &'a str,
    pub limits: Limits,
}

impl Services {
    pub(super) fn new(core: Core, identity: ServiceIdentity) -> Self {
        Self { core, identity }
    }

    /// The origin of a service's server. It may be called: its host may still have no public address.
    pub(super) async fn endpoint(&self, service: &ServiceRef) -> Result<String, ServiceError> {
        let Core { resolver, net, .. } = &self.core;
        let document = resolver.for_reads().resolve(&service.did).await?;
        let fragment = service.fragment.as_ref().map_or_else(|| PDS.to_owned(), |name| format!("#{name}"));
        let endpoint = document.endpoint(&fragment).ok_or(ServiceError::NoService(fragment))?;
        net.check_url(endpoint)?;
        Ok(endpoint.to_owned())
    }

    /// The origin of the server that hosts the spaces of an authority. The PDS counts only without an entry for it: one that is
    /// malformed is an error.
    pub(super) async fn space_host(&self, authority: &Did) -> Result<String, ServiceError> {
        let document = self.core.resolver.for_reads().resolve(authority).await?;
        let fragment = if document.has_service(HOST) { HOST } else { PDS };
        let endpoint = document.endpoint(fragment).map(str::to_owned);
        endpoint.ok_or_else(|| ServiceError::NoService(HOST.to_owned()))
    }

    /// Calls a query. `query`: its encoded parameters.
    pub(super) async fn get(
        &self,
        call: ServiceCall<'_>,
        query: &str,
    ) -> Result<FetchedResponse, ServiceError> {
        let url = format!("{}/xrpc/{}?{query}", call.endpoint, call.method);
        let headers = self.headers(call)?;
        Ok(self.core.net.request(Method::GET, &url, headers, None, call.limits).await?)
    }

    /// Calls a procedure. `token`: `None` for one of this instance.
    ///
    /// # Errors
    /// Also for a status other than 2xx; redirects are not followed.
    pub(super) async fn post(
        &self,
        call: ServiceCall<'_>,
        token: Option<&str>,
        body: &Value,
    ) -> Result<(), ServiceError> {
        let url = format!("{}/xrpc/{}", call.endpoint, call.method);
        let mut headers = match token {
            Some(token) => bearer(token)?,
            None => self.headers(call)?,
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Some(Bytes::from(body.to_string()));
        let status = self.core.net.request(Method::POST, &url, headers, body, call.limits).await?.status;
        if status.is_success() { Ok(()) } else { Err(ServiceError::Status(status.as_u16())) }
    }

    /// The headers with a token for the call.
    fn headers(&self, call: ServiceCall<'_>) -> Result<HeaderMap, ServiceError> {
        let Core { random, clock, .. } = &self.core;
        let method = Nsid::try_from(call.method).map_err(|_| ServiceError::Malformed)?;
        let token = self.identity.sign_token(call.service, &method, random, clock.now())?;
        bearer(&token)
    }
}

fn bearer(token: &str) -> Result<HeaderMap, ServiceError> {
    let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ServiceError::Malformed)?;
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}
