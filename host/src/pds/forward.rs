//! Forwards a client's call to the caller's PDS unchanged, if the session's scopes allow it.

use bytes::Bytes;
use http::Method;

use super::agent::{CallKind, JSON, WRITE_LIMITS};
use super::answer::Refusal;
use super::standard::StandardCall;
use super::{Agent, PdsError};
use crate::atproto::scope::{AccountAction, AccountAttribute, Need};
use crate::net::{FetchedResponse, Limits};

impl Agent<'_> {
    /// Forwards a call: `path` is the method with its parameters, `input` JSON text, and `call` the same, read. Returns
    /// the response whatever its status, of up to `max_bytes` bytes.
    ///
    /// # Errors
    /// [`PdsError::Refused`] when the session's scopes don't allow the call, which is then not sent; others when the
    /// PDS does not answer. After [`PdsError::Net`] a write may or may not have been made.
    pub async fn forward(
        &self,
        verb: Method,
        path: &str,
        input: Option<Bytes>,
        call: &StandardCall,
        max_bytes: usize,
    ) -> Result<FetchedResponse, PdsError> {
        self.check_call(call)?;
        let limits = Limits { max_bytes, ..WRITE_LIMITS };
        let input = input.map(|input| (JSON, input));
        self.with_deadline(CallKind::Call, self.request(verb, path, input, limits)).await
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
