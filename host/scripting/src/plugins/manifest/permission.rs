//! The permissions that a plugin asks for and an operator grants, one sentence each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use belvedere_protocol::atproto::Nsid;

/// One thing that a plugin may do. Its text form ([`fmt::Display`]) is stored, and names it in the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// `network:request?host=HOST`, with `&method=METHOD` for each method if not all are allowed.
    Network { host: HostPattern, methods: Vec<Method> },
    /// `network:request:unrestricted`: every host but internal ones.
    UnrestrictedNetwork,
    /// `records:write?collection=NSID`: writes to the repo of a user who linked an account.
    WriteRecords(Nsid),
    /// `records:read?collection=NSID`: finds records in the index.
    FindRecords(Nsid),
    /// `attest:sign`: the instance signs records for the plugin.
    SignRecords,
    /// `secrets:read`: the plugin's own secrets.
    ReadSecrets,
    /// `kv:use`: values of its own.
    KeepValues,
}

/// The operator's risk with a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    Low,
    Medium,
    High,
}

/// A host name in lower case, or one with a wildcard for its first label: `*.example.com` is `a.example.com`, but neither
/// `example.com` nor `a.b.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPattern(String);

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidPermission(String);

/// Methods that a plugin may send.
const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Longest host name (RFC 1035 §3.1).
const MAX_HOST: usize = 253;

impl HostPattern {
    /// Refuses a pattern that a plugin may not ask for: it covers names below a public suffix, which anyone may
    /// register, or is a suffix such as `co.uk` itself. Suffixes of a company (`s3.amazonaws.com`) are hosts too, of
    /// that company. Not checked when a stored permission is read: the list of suffixes grows, and installed plugins
    /// stay.
    ///
    /// # Errors
    /// Says what to list instead.
    pub fn check_owner(&self) -> Result<(), InvalidPermission> {
        let (name, is_wildcard) = match self.0.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (self.0.as_str(), false),
        };
        let suffix = psl::suffix(name.as_bytes()).filter(|suffix| suffix.as_bytes() == name.as_bytes());
        // A single label that the list does not know is a name of this network.
        let is_open = suffix.is_some_and(|suffix| match suffix.typ() {
            Some(psl::Type::Icann) => true,
            Some(psl::Type::Private) | None => is_wildcard,
        });
        if is_open {
            let text = format!(
                "{self} belongs to many owners, since anyone may register names below {name}: list the hosts"
            );
            return Err(InvalidPermission(text));
        }
        Ok(())
    }

    /// Whether the pattern covers `host`, which is in lower case and without a port.
    pub fn covers(&self, host: &str) -> bool {
        match self.0.strip_prefix("*.") {
            None => self.0 == host,
            Some(rest) => {
                host.split_once('.').is_some_and(|(label, parent)| !label.is_empty() && parent == rest)
            }
        }
    }
}

impl TryFrom<String> for HostPattern {
    type Error = InvalidPermission;

    fn try_from(text: String) -> Result<Self, InvalidPermission> {
        let name = text.strip_prefix("*.").unwrap_or(&text);
        let is_label = |label: &str| {
            let inner = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            !label.is_empty()
                && label.len() <= 63
                && inner
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // The last label of a name has a letter, so this refuses IPv4 addresses.
        let is_name =
            name.rsplit('.').next().is_some_and(|last| last.bytes().any(|b| b.is_ascii_lowercase()));
        let labels = name.split('.').count();
        // A wildcard directly below a top-level domain would cover every name under it.
        let enough = labels >= if text.starts_with("*.") { 2 } else { 1 };
        if text.len() <= MAX_HOST && is_name && enough && name.split('.').all(is_label) {
            return Ok(Self(text));
        }
        Err(InvalidPermission(format!(
            "{text:?} is no host: a name in lower case, without scheme and port, or one that begins with *."
        )))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Permission {
    /// Requests to a host, with the named methods, or with all.
    ///
    /// # Errors
    /// For a method that plugins can't send.
    pub fn network(host: HostPattern, methods: &[String]) -> Result<Self, InvalidPermission> {
        let mut known = Vec::new();
        for name in methods {
            let method = METHODS.iter().find(|method| method.as_str() == name);
            let method = method.ok_or_else(|| {
                InvalidPermission(format!("{name:?} is none of GET, HEAD, POST, PUT, PATCH, DELETE"))
            })?;
            if !known.contains(method) {
                known.push(method.clone());
            }
        }
        Ok(Self::Network { host, methods: known })
    }

    /// The text that an operator reads before they grant it.
    pub fn sentence(&self) -> String {
        match self {
            Self::Network { host, methods } if methods.is_empty() => format!("may call {host}"),
            Self::Network { host, methods } => {
                format!("may send {} requests to {host}", names(methods).join(", "))
            }
            Self::UnrestrictedNetwork => "may call every host on the internet".to_owned(),
            Self::WriteRecords(collection) => format!("may write {collection} to the repo of a linked user"),
            Self::FindRecords(collection) => format!("may look up {collection} in the index"),
            Self::SignRecords => "may have records signed with this instance's key".to_owned(),
            Self::ReadSecrets => "may read the secrets that you set for it".to_owned(),
            Self::KeepValues => "may keep up to 1 MiB of its own data for each linked account".to_owned(),
        }
    }

    /// Whether this permission permits all that `other` does. Compares hosts as they are written.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Network { host, methods }, Self::Network { host: other, methods: fewer }) => {
                let has_all = methods.is_empty()
                    || !fewer.is_empty() && fewer.iter().all(|method| methods.contains(method));
                host == other && has_all
            }
            _ => self == other,
        }
    }

    pub fn risk(&self) -> Risk {
        match self {
            Self::ReadSecrets | Self::KeepValues => Risk::Low,
            Self::Network { .. } | Self::FindRecords(_) => Risk::Medium,
            Self::UnrestrictedNetwork | Self::WriteRecords(_) | Self::SignRecords => Risk::High,
        }
    }
}

fn names(methods: &[Method]) -> Vec<&str> {
    methods.iter().map(Method::as_str).collect()
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { host, methods } => {
                write!(f, "network:request?host={host}")?;
                methods.iter().try_for_each(|method| write!(f, "&method={method}"))
            }
            Self::UnrestrictedNetwork => f.write_str("network:request:unrestricted"),
            Self::WriteRecords(collection) => write!(f, "records:write?collection={collection}"),
            Self::FindRecords(collection) => write!(f, "records:read?collection={collection}"),
            Self::SignRecords => f.write_str("attest:sign"),
            Self::ReadSecrets => f.write_str("secrets:read"),
            Self::KeepValues => f.write_str("kv:use"),
        }
    }
}

impl FromStr for Permission {
    type Err = InvalidPermission;

    fn from_str(text: &str) -> Result<Self, InvalidPermission> {
        let unknown = || InvalidPermission(format!("{text:?} is no permission of a plugin"));
        let collection = |nsid: &str| Nsid::try_from(nsid).map_err(|_| unknown());
        if let Some(rest) = text.strip_prefix("network:request?host=") {
            let mut parts = rest.split('&');
            let host = HostPattern::try_from(parts.next().unwrap_or_default().to_owned())?;
            let methods =
                parts.map(|part| part.strip_prefix("method=").map(str::to_owned).ok_or_else(unknown));
            return Self::network(host, &methods.collect::<Result<Vec<_>, _>>()?);
        }
        if let Some(nsid) = text.strip_prefix("records:write?collection=") {
            return Ok(Self::WriteRecords(collection(nsid)?));
        }
        if let Some(nsid) = text.strip_prefix("records:read?collection=") {
            return Ok(Self::FindRecords(collection(nsid)?));
        }
        match text {
            "network:request:unrestricted" => Ok(Self::UnrestrictedNetwork),
            "attest:sign" => Ok(Self::SignRecords),
            "secrets:read" => Ok(Self::ReadSecrets),
            "kv:use" => Ok(Self::KeepValues),
            _ => Err(unknown()),
        }
    }
}

/// The permissions that an operator granted to a plugin. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Arc<[Permission]>);

impl Grants {
    pub fn new(permissions: Vec<Permission>) -> Self {
        Self(permissions.into())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Permission> {
        self.0.iter()
    }

    pub fn contains(&self, permission: &Permission) -> bool {
        self.0.contains(permission)
    }

    /// Whether any request at all may be allowed.
    pub fn has_network(&self) -> bool {
        self.0.iter().any(|held| matches!(held, Permission::Network { .. } | Permission::UnrestrictedNetwork))
    }

    /// Whether a permission that names the host allows a request. `host` is in lower case and without a port. Such hosts may be internal ones if the operator's
    /// OUTBOUND_ALLOW has them too; [`Permission::UnrestrictedNetwork`] never reaches these.
    pub fn names_host(&self, host: &str, method: &Method) -> bool {
        self.0.iter().any(|held| match held {
            Permission::Network { host: pattern, methods } => {
                pattern.covers(host) && (methods.is_empty() || methods.contains(method))
            }
            _ => false,
        })
    }

    pub fn allow_write(&self, collection: &Nsid) -> bool {
        self.0.iter().any(|held| matches!(held, Permission::WriteRecords(granted) if granted == collection))
    }

    pub fn allow_find(&self, collection: &Nsid) -> bool {
        self.0.iter().any(|held| matches!(held, Permission::FindRecords(granted) if granted == collection))
    }

    /// The collections that a sync may write.
    pub fn written_collections(&self) -> impl Iterator<Item = &Nsid> {
        self.0.iter().filter_map(|held| match held {
            Permission::WriteRecords(collection) => Some(collection),
            _ => None,
        })
    }
}
