//! One XRPC call as a value: which method, on whose behalf, and the answer. No I/O.
//!
//! Requests over HTTP and `xrpc.*` of scripts both become a [`Call`], and `methods` answers it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use http::{HeaderValue, Method, StatusCode};

use crate::pds::SessionAuthority;
use belvedere_protocol::atproto::{Did, LexiconKind, Nsid};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::replicas::Writer;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// Names the service that should answer a call: `DID#fragment`.
pub const PROXY: HeaderName = HeaderName::from_static("atproto-proxy");
/// Names the labelers whose labels a caller wants.
pub const ACCEPT_LABELERS: HeaderName = HeaderName::from_static("atproto-accept-labelers");
/// Names the labelers whose labels an answer has.
pub const CONTENT_LABELERS: HeaderName = HeaderName::from_static("atproto-content-labelers");

/// The verb of a method: GET or POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Query,
    Procedure,
}

impl Verb {
    /// The kind of the lexicon that such a method has.
    pub fn kind(self) -> LexiconKind {
        match self {
            Self::Query => LexiconKind::Query,
            Self::Procedure => LexiconKind::Procedure,
        }
    }

    /// The trigger of the script that answers such a method.
    pub fn trigger(self) -> TriggerKind {
        match self {
            Self::Query => TriggerKind::Query,
            Self::Procedure => TriggerKind::Procedure,
        }
    }

    pub fn http_method(self) -> Method {
        match self {
            Self::Query => Method::GET,
            Self::Procedure => Method::POST,
        }
    }
}

/// On whose behalf a call or a run acts. The default has no account and is charged to the instance.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The authenticated account; `None` for an anonymous call.
    pub did: Option<Did>,
    /// The API client that the request names, by id. It is charged for the call. Being named proves nothing: code that
    /// uses stored sessions takes [`Self::authority`] or [`Self::proven_client`].
    pub client: Option<Arc<str>>,
    /// The stored sessions that the caller may act with.
    pub authority: SessionAuthority,
    /// The proof is valid for the called method only (a service token with `lxm`): no other procedure may be called on
    /// the account's behalf.
    pub method_bound: bool,
    /// It is the creator of a job, which runs later: without an authority, nothing says what the proof of the call permitted.
    pub is_of_job: bool,
    /// The tenant that the call is charged to. A call that a script makes has the tenant of the call that ran the
    /// script.
    pub tenant: Tenant,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            did: None,
            client: None,
            authority: SessionAuthority::None,
            method_bound: false,
            is_of_job: false,
            tenant: Tenant::Instance,
        }
    }
}

impl Caller {
    /// The writer whose writes the caller's reads have to see: the account, or without one all anonymous calls of the
    /// tenant.
    pub fn writer(&self) -> Writer {
        match &self.did {
            Some(did) => Writer::account(did),
            None => Writer::tenant(&self.tenant),
        }
    }

    /// The API client, by id, that the account proved to hold a session of.
    pub fn proven_client(&self) -> Option<&Arc<str>> {
        self.authority.client().filter(|proven| self.client.as_ref() == Some(proven))
    }
}

/// A service of another server: a DID, and the fragment that names the service in its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRef {
    pub did: Did,
    /// With `#`.
    pub fragment: String,
}

impl ServiceRef {
    /// Reads `DID#fragment`; `None` for another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (did, name) = text.split_once('#')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let did = Did::try_from(did).ok().filter(|_| is_name && text.len() <= MAX_SERVICE_REF)?;
        Some(Self { did, fragment: format!("#{name}") })
    }
}

/// Bytes of a [`ServiceRef`]: a DID of up to 2 KiB, and a fragment.
const MAX_SERVICE_REF: usize = 2_200;

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.did, self.fragment)
    }
}

/// Headers of a call that are for the server that answers it.
#[derive(Clone, Debug, Default)]
pub struct CallHeaders {
    /// `atproto-proxy`: the service that should answer, if it is another server's.
    pub service: Option<ServiceRef>,
    /// `atproto-accept-labelers`: the labelers whose labels the caller wants.
    pub accept_labelers: Option<HeaderValue>,
}

/// A call of a method.
#[derive(Clone, Debug)]
pub struct Call {
    pub verb: Verb,
    pub nsid: Nsid,
    /// Names and values in order, decoded. A name may repeat.
    pub params: Vec<(String, String)>,
    /// The body of a procedure, not checked to be JSON; `None` when it has none.
    pub input: Option<Bytes>,
    pub caller: Caller,
    pub headers: CallHeaders,
}

impl Call {
    /// The first value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The path below `/xrpc/` and the query of a request that makes this call.
    pub fn path_and_query(&self) -> String {
        if self.params.is_empty() {
            return self.nsid.to_string();
        }
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.params).finish();
        format!("{}?{query}", self.nsid)
    }
}

/// The answer of a method, with any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
    pub origin: Origin,
}

/// The author of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This server, or a PDS through one of this server's own methods: JSON.
    Local,
    /// The method's authority or the caller's PDS: an unchecked body with the type that it names.
    Forwarded {
        content_type: Option<HeaderValue>,
        /// `atproto-content-labelers`: the labelers whose labels the body has.
        content_labelers: Option<HeaderValue>,
    },
}

impl Answer {
    /// A JSON answer of this server.
    pub fn json(status: StatusCode, body: Bytes) -> Self {
        Self { status, body, origin: Origin::Local }
    }

    /// The answer of another server.
    pub fn forwarded(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        let content_type = headers.get(CONTENT_TYPE).cloned();
        let content_labelers = headers.get(CONTENT_LABELERS).cloned();
        Self { status, body, origin: Origin::Forwarded { content_type, content_labelers } }
    }

    /// The answer that the caller gets over HTTP for an error, without its headers.
    pub fn of_error(error: &Error) -> Self {
        Self::json(error.status, error.body(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_did_with_a_fragment() {
        let parsed = ServiceRef::parse("did:web:api.example#bsky_appview").unwrap();
        assert_eq!((parsed.did.as_str(), &*parsed.fragment), ("did:web:api.example", "#bsky_appview"));
        assert_eq!(parsed.to_string(), "did:web:api.example#bsky_appview");
        for bad in
            ["", "#a", "did:web:api.example", "did:web:api.example#", "did:plc:a#b#c", "did:plc:a#b c", "x#y"]
        {
            assert_eq!(ServiceRef::parse(bad), None, "{bad}");
        }
        assert_eq!(ServiceRef::parse(&format!("did:plc:a#{}", "x".repeat(MAX_SERVICE_REF))), None);
    }

    #[test]
    fn the_path_holds_the_query_and_nothing_can_leave_it() {
        let params = [("a b", "1&2=3#"), ("é", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let nsid = Nsid::try_from("com.example.get").unwrap();
        let (caller, headers) = Default::default();
        let call = Call { verb: Verb::Query, nsid, params: params.into(), input: None, caller, headers };
        assert_eq!(call.path_and_query(), "com.example.get?a+b=1%262%3D3%23&%C3%A9=");
        assert_eq!(Call { params: Vec::new(), ..call }.path_and_query(), "com.example.get");
    }
}
