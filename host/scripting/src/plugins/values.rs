//! The values that cross between the host and a plugin. Those of `wit/plugin` are generated from it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::bindings::belvedere::plugin::types;
use super::bindings::exports::belvedere::plugin::{callable, describe, linking, sync};
use super::limits;
use belvedere_base::clock::Timestamp;
use belvedere_wasm::sandbox::MemoryGroup;

pub use callable::Function;
pub use describe::{AuthKind, Info, Secret as SecretInfo};
pub use linking::{Callback, Profile, Start};
pub use sync::{Item, Page};
pub use types::{Fault, FaultCode};

impl Fault {
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, body: None, retry_after_ms: None }
    }
}

impl FaultCode {
    const ALL: [Self; 17] = [
        Self::BadInput,
        Self::InvalidRecord,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::NoSession,
        Self::AuthRequired,
        Self::OutOfScope,
        Self::NeedsReauth,
        Self::NotLinked,
        Self::Upstream,
        Self::RateLimited,
        Self::TimedOut,
        Self::TooLarge,
        Self::Quota,
        Self::Unsupported,
        Self::Internal,
    ];

    /// The code with a name in the contract.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }

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

/// The time at which tokens expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    At(Timestamp),
}

impl Tokens {
    /// The tokens that a plugin returned. A lifetime in seconds counts from `now`.
    ///
    /// # Errors
    /// A fault when the expiry is no time.
    pub(super) fn returned(tokens: linking::Tokens, now: Timestamp) -> Result<Self, Fault> {
        let linking::Tokens { access, refresh, token_type, scope, expiry } = tokens;
        let expiry = match expiry {
            linking::Expiry::Never => Expiry::Never,
            linking::Expiry::InSeconds(seconds) => Expiry::At(now.plus_seconds(i64::from(seconds))),
            linking::Expiry::At(text) => {
                let unusable = || Fault::new(FaultCode::Upstream, "the expiry of the tokens is not RFC 3339");
                Expiry::At(Timestamp::parse(&text).map_err(|_| unusable())?)
            }
        };
        Ok(Self { access, refresh, token_type, scope, expiry })
    }

    /// The tokens as a plugin gets them.
    pub(super) fn given(&self) -> linking::Tokens {
        let Self { access, refresh, token_type, scope, expiry } = self.clone();
        let expiry = match expiry {
            Expiry::Never => linking::Expiry::Never,
            Expiry::At(at) => linking::Expiry::At(at.to_string()),
        };
        linking::Tokens { access, refresh, token_type, scope, expiry }
    }
}

/// The permissions of a library's function from the run of a script.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// Whether the run has a session with the caller's PDS.
    pub has_session: bool,
    /// Whether the run may only read.
    pub read_only: bool,
    /// Requests to other servers that the run may still send. Its calls share them.
    pub requests_left: Arc<AtomicU32>,
    /// The time that the run may still compute, with the plugins that it calls.
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
