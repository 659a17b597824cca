//! The values of `wit/plugin` as types of this room; the generated bindings stay within `engine`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::plugins::limits;
use belvedere_base::clock::Timestamp;
use belvedere_wasm::sandbox::MemoryGroup;

/// The error of a plugin or of a host function (`types.fault`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: FaultCode,
    pub message: String,
    /// The HTTP status of an upstream server's answer.
    pub status: Option<u16>,
    pub body: Option<String>,
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    BadInput,
    InvalidRecord,
    Forbidden,
    NotFound,
    Conflict,
    NoSession,
    AuthRequired,
    OutOfScope,
    NeedsReauth,
    NotLinked,
    Upstream,
    RateLimited,
    TimedOut,
    TooLarge,
    Quota,
    Unsupported,
    Internal,
}

impl FaultCode {
    /// The name in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadInput => "bad-input",
            Self::InvalidRecord => "invalid-record",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::Conflict => "conflict",
            Self::NoSession => "no-session",
            Self::AuthRequired => "auth-required",
            Self::OutOfScope => "out-of-scope",
            Self::NeedsReauth => "needs-reauth",
            Self::NotLinked => "not-linked",
            Self::Upstream => "upstream",
            Self::RateLimited => "rate-limited",
            Self::TimedOut => "timed-out",
            Self::TooLarge => "too-large",
            Self::Quota => "quota",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    Oauth2,
    Openid,
    ApiKey,
    None,
}

/// What a plugin says of itself (`describe.info`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub id: String,
    pub name: String,
    pub version: String,
    pub auth: AuthKind,
    pub secrets: Vec<SecretInfo>,
    pub config_schema: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretInfo {
    pub name: String,
    pub label: String,
    pub help: Option<String>,
}

/// The beginning of a sign-in (`linking.start`).
#[derive(Clone, Debug)]
pub struct Start {
    pub state: String,
    pub redirect_uri: String,
    /// JSON text.
    pub config: String,
}

/// The end of a sign-in (`linking.callback`).
#[derive(Clone, Debug)]
pub struct Callback {
    pub state: String,
    pub redirect_uri: String,
    pub params: Vec<(String, String)>,
    /// JSON text.
    pub config: String,
}

/// Tokens of an account (`linking.tokens`). `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    pub access: String,
    pub refresh: Option<String>,
    pub token_type: String,
    pub scope: Option<String>,
    pub expiry: Expiry,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

/// When tokens expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    At(Timestamp),
}

/// The linked account (`linking.profile`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub account_id: String,
    pub display_name: Option<String>,
    pub profile_url: Option<String>,
    pub avatar_url: Option<String>,
}

/// A record that a sync writes (`sync.item`), unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub collection: String,
    /// JSON text.
    pub value: String,
    pub dedup_key: Option<String>,
    pub sign: bool,
}

/// A page of a sync (`sync.page`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub items: Vec<Item>,
    pub next: Option<String>,
}

/// A function of a library (`callable.function`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub params: Vec<String>,
    pub help: Option<String>,
}

/// What the run of a script lets a library's function do.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// Whether the run has a session with the caller's PDS.
    pub has_session: bool,
    /// Whether the run may only read.
    pub read_only: bool,
    /// Requests to other servers that the run may still send. Its calls share them.
    pub requests_left: Arc<AtomicU32>,
    /// How long the run may still compute, with the plugins that it calls.
    pub time_left: Duration,
    /// The group of runs that the run's memory belongs to.
    pub memory: MemoryGroup,
}

impl Default for RunContext {
    /// Without a session, and with the requests and the guest time of one call.
    fn default() -> Self {
        let requests_left = Arc::new(AtomicU32::new(limits::HTTP_REQUESTS));
        Self {
            has_session: false,
            read_only: false,
            requests_left,
            time_left: limits::GUEST_TIME,
            memory: MemoryGroup::default(),
        }
    }
}

impl RunContext {
    /// Takes one of the run's requests; `false` when there is none left.
    pub(in crate::plugins) fn take_request(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.requests_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}
