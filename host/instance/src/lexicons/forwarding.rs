//! The rules that say which methods without a lexicon here are forwarded to their authority (admin-api.md §8).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use belvedere_storage::store::{Db, StoreError, settings};
use belvedere_web::fair_share::{Bounds, FairPool};

/// The setting that stores the rules, as JSON text.
pub const SETTING: &str = "xrpc_proxy_config";

/// Patterns in a list. Far more than an operator needs; bounded, because the list is read for every forwarded call.
const MAX_PATTERNS: usize = 1_000;

/// Bytes of a forwarded response, which is buffered whole. The same limit as for our own methods.
pub const MAX_RESPONSE_BYTES: usize = 8 << 20;

/// Limits for concurrent forwarded calls. Each call may buffer a whole response, so with [`MAX_RESPONSE_BYTES`] this
/// bounds the memory. Forwarding is rarely used; more calls than this at a time mean that an authority is slow. A
/// tenant gets a quarter, so that a tenant with a slow authority does not block the others. Authorities usually respond
/// within a fraction of a second, so it is enough when few calls wait, and briefly.
const POOL_BOUNDS: Bounds = Bounds {
    permits: 64,
    per_tenant: 16,
    waiting: 128,
    waiting_per_tenant: 32,
    max_wait: Duration::from_secs(2),
};

/// The pool for forwarded calls.
pub fn pool() -> FairPool {
    FairPool::new("forwards", POOL_BOUNDS)
}

/// The forwarding rules. The default, when none are stored, forwards every method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForwardingRules {
    pub mode: Mode,
    /// For `allowlist` and `blocklist`: NSIDs, or `prefix.*` for all NSIDs below a prefix.
    #[serde(default)]
    pub nsids: Vec<String>,
    #[serde(default)]
    pub routing: Routing,
}

/// The server that receives allowed calls of callers with a session. Other callers' calls go to the authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ForwardingRouting")]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// To the method's authority, anonymously.
    #[default]
    Authority,
    /// To the caller's PDS, with their session.
    ServiceProxy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ForwardingMode")]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Open,
    Disabled,
    Allowlist,
    Blocklist,
}

/// The reason why rules from an operator are invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidRules {
    #[error("{0:?} is neither an NSID nor a prefix with .*")]
    Pattern(String),
    #[error("at most {MAX_PATTERNS} nsids")]
    TooMany,
}

impl ForwardingRules {
    /// Reads the current rules. Called for every forwarded call: the read is cheap compared with the call, and so a
    /// change takes effect on all hosts at once.
    ///
    /// # Errors
    /// When the store can't be read, or the stored rules are invalid. Then the call must not be forwarded.
    pub async fn load(db: &Db) -> Result<Self, StoreError> {
        let Some(text) = settings::get(db, SETTING).await? else { return Ok(Self::default()) };
        serde_json::from_str(&text).map_err(|e| StoreError::Corrupt(format!("settings.{SETTING}: {e}")))
    }

    /// Checks the patterns. Clears the list in modes that don't use it.
    ///
    /// # Errors
    /// The first invalid pattern, or too many patterns.
    pub fn checked(mut self) -> Result<Self, InvalidRules> {
        if self.nsids.len() > MAX_PATTERNS {
            return Err(InvalidRules::TooMany);
        }
        if let Some(bad) = self.nsids.iter().find(|pattern| !is_pattern(pattern)) {
            return Err(InvalidRules::Pattern(bad.clone()));
        }
        if matches!(self.mode, Mode::Open | Mode::Disabled) {
            self.nsids.clear();
        }
        Ok(self)
    }

    pub fn allow(&self, nsid: &str) -> bool {
        match self.mode {
            Mode::Open => true,
            Mode::Disabled => false,
            Mode::Allowlist => self.is_listed(nsid),
            Mode::Blocklist => !self.is_listed(nsid),
        }
    }

    fn is_listed(&self, nsid: &str) -> bool {
        self.nsids.iter().any(|pattern| match pattern.strip_suffix(".*") {
            // Matches below the prefix, not the prefix itself. The domain part of an NSID is case-insensitive.
            Some(prefix) => nsid.get(..prefix.len()).is_some_and(|start| {
                start.eq_ignore_ascii_case(prefix) && nsid[prefix.len()..].starts_with('.')
            }),
            None => same_method(pattern, nsid),
        })
    }
}

/// Compares two NSIDs: the domain part ignoring case, the name exactly.
fn same_method(a: &str, b: &str) -> bool {
    match (a.rsplit_once('.'), b.rsplit_once('.')) {
        (Some((a, x)), Some((b, y))) => a.eq_ignore_ascii_case(b) && x == y,
        _ => false,
    }
}

/// Whether the text is an NSID of at least three segments, or a prefix of at least two followed by `.*`.
fn is_pattern(pattern: &str) -> bool {
    let (segments, least) = match pattern.strip_suffix(".*") {
        Some(prefix) => (prefix, 2),
        None => (pattern, 3),
    };
    let well_formed = |segment: &str| {
        !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    segments.split('.').count() >= least && segments.split('.').all(well_formed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(mode: Mode, nsids: &[&str]) -> ForwardingRules {
        let nsids = nsids.iter().map(|&n| n.to_owned()).collect();
        ForwardingRules { mode, nsids, routing: Routing::default() }
    }

    #[test]
    fn modes_and_lists_decide() {
        let list = ["com.example.getThing", "org.test.*"];
        for (nsid, listed) in [
            ("com.example.getThing", true),
            ("COM.Example.getThing", true),
            ("com.example.getthing", false),
            ("com.example.getThing.more", false),
            ("com.example.other", false),
            ("org.test.x", true),
            ("org.test.a.b", true),
            ("org.Test.a.b", true),
            ("org.test", false),
            ("org.testing.x", false),
        ] {
            assert!(rules(Mode::Open, &list).allow(nsid));
            assert!(!rules(Mode::Disabled, &list).allow(nsid));
            assert_eq!(rules(Mode::Allowlist, &list).allow(nsid), listed, "{nsid}");
            assert_eq!(rules(Mode::Blocklist, &list).allow(nsid), !listed, "{nsid}");
        }
    }

    #[test]
    fn patterns_are_checked() {
        for good in ["a.b.c", "com.example.getThing", "com.example.*", "com.ex-ample.x.*"] {
            assert!(rules(Mode::Allowlist, &[good]).checked().is_ok(), "{good}");
        }
        for bad in ["", "*", "com.*", "a.b", "a..c", "a.b.c*", "a.*.c", "a.b.*.*", "a b.c.d", "ä.b.c"] {
            let refused = rules(Mode::Open, &[bad]).checked();
            assert_eq!(refused, Err(InvalidRules::Pattern(bad.to_owned())));
        }
        let many: Vec<String> = (0..=MAX_PATTERNS).map(|n| format!("a.b.c{n}")).collect();
        assert_eq!(
            ForwardingRules { nsids: many, ..ForwardingRules::default() }.checked(),
            Err(InvalidRules::TooMany)
        );
        assert_eq!(rules(Mode::Disabled, &["a.b.c"]).checked().unwrap().nsids, Vec::<String>::new());
    }
}
