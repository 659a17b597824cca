//! Forwards a client's call to the caller's PDS unchanged, if the session's scopes allow it.

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::agent::{CallKind, JSON, WRITE_LIMITS};
use super::answer::Refusal;
use super::standard::StandardCall;
use super::{Agent, PdsError};
use belvedere_protocol::atproto::scope::{AccountAction, AccountAttribute, Need};
use belvedere_web::net::{FetchedResponse, Limits};

/// A client's call for the caller's PDS.
#[derive(Debug)]
pub struct ForwardedCall<'a> {
    pub verb: Method,
    /// The method with its parameters.
    pub path: &'a str,
    /// JSON text.
    pub input: Option<Bytes>,
    /// The same call, read.
    pub requested: &'a StandardCall,
    /// The service (`DID#fragment`) at which the PDS is to call the method for the user.
    pub service: Option<&'a str>,
    /// Headers for the PDS.
    pub headers: HeaderMap,
}

impl Agent<'_> {
    /// Forwards a call. Returns the response whatever its status, of up to `max_bytes` bytes.
    ///
    /// # Errors
    /// [`PdsError::Refused`] when the session's scopes don't allow the call, which is then not sent; others when the
    /// PDS does not answer. After [`PdsError::Net`] a write may or may not have been made.
    pub async fn forward(
        &self,
        call: ForwardedCall<'_>,
        max_bytes: usize,
    ) -> Result<FetchedResponse, PdsError> {
        let ForwardedCall { verb, path, input, requested, service, headers } = call;
        match (service, requested) {
            // If the service is known, the scopes must name it.
            (Some(audience), StandardCall::Remote(method)) => {
                let method = method.as_str();
                let need = Need::Rpc { method: Some(method), audience: Some(audience) };
                self.check(&need, || format!("rpc:{method}?aud={audience}"))?;
            }
            _ => self.check_call(requested)?,
        }
        let limits = Limits { max_bytes, ..WRITE_LIMITS };
        let input = input.map(|input| (JSON, input));
        self.with_deadline(CallKind::Call, self.request(verb, path, headers, input, limits)).await
    }

    /// Whether the session may read the account's email address.
    pub fn may_read_email(&self) -> bool {
        let need = Need::Account { attribute: AccountAttribute::Email, action: AccountAction::Read };
        self.check(&need, String::new).is_ok()
    }

    fn check_call(&self, call: &StandardCall) -> Result<(), PdsError> {
        match call {
            StandardCall::Write(requested) => {
                let check = |write| self.check_write(write, requested.is_batch);
                requested.writes.iter().try_for_each(check)
            }
            StandardCall::ServiceToken { audience, method } => {
                let method = method.as_deref();
                let scope = || format!("rpc:{}?aud={audience}", method.unwrap_or("*"));
                self.check(&Need::Rpc { method, audience: Some(audience) }, scope)
            }
            StandardCall::Account(attribute) => {
                let (attribute, action) = (*attribute, AccountAction::Manage);
                let scope = || format!("account:{}?action=manage", attribute.as_str());
                self.check(&Need::Account { attribute, action }, scope)
            }
            StandardCall::Identity(attribute) => {
                let scope = || format!("identity:{}", attribute.as_str());
                self.check(&Need::Identity { attribute: *attribute }, scope)
            }
            StandardCall::Remote(method) => {
                let name = method.as_str();
                self.check(&Need::Method { name }, || format!("rpc:{name}?aud=*"))
            }
            StandardCall::Unscoped if self.has_scopes() => Err(PdsError::Refused(Refusal::unscoped())),
            StandardCall::Read | StandardCall::Session | StandardCall::Unscoped => Ok(()),
        }
    }
}
