//! Calls services that a DID document names, with tokens of this instance, or with credentials.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::Value;

use super::held_credential::HeldCredential;
use crate::core::Core;
use crate::identity::IdentityError;
use crate::service_identity::{ServiceIdentity, TokenError};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::crypto::PrivateKey;
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_protocol::spaces::r10::http_signature;
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
    /// `name`: the name of the error in the answer; empty without one.
    #[error("it answers with the status {status} {name}")]
    Refused { status: u16, name: String },
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

/// The proof of the right to a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proof<'a> {
    /// A service token of this instance.
    Instance,
    /// A token that someone else has signed.
    Token(&'a str),
    /// A delegation token, signed by the key for which a credential is requested.
    Delegation(&'a str, &'a PrivateKey),
    /// A credential, and the DID that answers the call.
    Credential(&'a HeldCredential, &'a Did),
}

/// The body of an answer that is an error.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    error: String,
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

    /// Calls a query. `query`: its encoded parameters. The answer may have any status.
    pub(super) async fn get(
        &self,
        call: ServiceCall<'_>,
        proof: Proof<'_>,
        query: &str,
    ) -> Result<FetchedResponse, ServiceError> {
        let url = format!("{}/xrpc/{}?{query}", call.endpoint, call.method);
        let headers = self.headers(call, proof)?;
        Ok(self.core.net.request(Method::GET, &url, headers, None, call.limits).await?)
    }

    /// Calls a procedure.
    ///
    /// # Errors
    /// Also for a status other than 2xx; redirects are not followed.
    pub(super) async fn post(
        &self,
        call: ServiceCall<'_>,
        proof: Proof<'_>,
        body: &Value,
    ) -> Result<FetchedResponse, ServiceError> {
        let url = format!("{}/xrpc/{}", call.endpoint, call.method);
        let mut headers = self.headers(call, proof)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Some(Bytes::from(body.to_string()));
        accepted(self.core.net.request(Method::POST, &url, headers, body, call.limits).await?)
    }

    fn headers(&self, call: ServiceCall<'_>, proof: Proof<'_>) -> Result<HeaderMap, ServiceError> {
        let (scheme, token, signed) = match proof {
            Proof::Instance => {
                let Core { random, clock, .. } = &self.core;
                let method = Nsid::try_from(call.method).map_err(|_| ServiceError::Malformed)?;
                let token = self.identity.sign_token(call.service, &method, random, clock.now())?;
                ("Bearer", token.into(), None)
            }
            Proof::Token(token) => ("Bearer", Cow::Borrowed(token), None),
            Proof::Delegation(token, key) => ("Bearer", token.into(), Some((key, None))),
            Proof::Credential(held, audience) => {
                ("Atproto-Space", held.token.as_str().into(), Some((&held.key, Some(audience.as_str()))))
            }
        };
        let authorization = format!("{scheme} {token}");
        let mut headers = vec![("authorization", authorization.clone())];
        if let Some((key, audience)) = signed {
            let signature = http_signature::sign(key, &authorization, audience);
            let (input, signature) = signature.ok_or(ServiceError::Malformed)?;
            headers.extend([("signature-input", input), ("signature", signature)]);
            headers.extend(audience.map(|audience| (http_signature::AUDIENCE, audience.to_owned())));
        }
        let header = |(name, value)| {
            let value = HeaderValue::try_from(value).map_err(|_| ServiceError::Malformed)?;
            Ok((HeaderName::from_static(name), value))
        };
        headers.into_iter().map(header).collect()
    }
}

/// An answer with the status 2xx.
///
/// # Errors
/// [`ServiceError::Refused`]
pub(super) fn accepted(answer: FetchedResponse) -> Result<FetchedResponse, ServiceError> {
    /// Characters of a name that are kept: it is written to the log.
    const MAX_NAME: usize = 64;
    if answer.status.is_success() {
        return Ok(answer);
    }
    let body = serde_json::from_slice(&answer.body);
    let name = body.map_or_else(|_| String::new(), |body: ErrorBody| body.error);
    let name = name.chars().filter(char::is_ascii_alphanumeric).take(MAX_NAME).collect();
    Err(ServiceError::Refused { status: answer.status.as_u16(), name })
}
