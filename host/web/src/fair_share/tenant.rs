//! Identifies tenants: the parties that share an instance.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A party that shares the instance with others. Its calls use only its own share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// A top-level API client, by id. Its children count as the client itself.
    Client(Arc<str>),
    /// A registrable domain, for callers and servers that have no client.
    Domain(Arc<str>),
    /// An account without a client whose DID names no domain (`did:plc`).
    Account(Arc<str>),
    /// The network of an address: an IPv4 address, or the /64 of an IPv6 address, because one host may own a whole /64.
    Address(IpAddr),
    /// The instance's own work: events, sweeps, admins.
    Instance,
    /// One tenant's calls to one server, so that a slow server delays only the calls that go there.
    Route(Arc<(Tenant, Tenant)>),
}

/// [`Tenant::Instance`] as text.
const INSTANCE: &str = "instance";

impl Tenant {
    /// The tenant of an API client, by the id of its top-level client.
    pub fn client(id: impl Into<Arc<str>>) -> Self {
        Self::Client(id.into())
    }

    /// The tenant of a host: the registrable domain of a name, or the network of an address. `host` has no port.
    pub fn of_host(host: &str) -> Self {
        let host = host.trim_end_matches('.');
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse() {
            return Self::of_address(address);
        }
        let lower = host.to_ascii_lowercase();
        Self::Domain(registrable(&lower).into())
    }

    /// The tenant of an account that calls without a client: its domain for `did:web`, else the account itself.
    pub fn of_did(did: &str) -> Self {
        match did.strip_prefix("did:web:") {
            // The domain ends at a path (`:`) or at a port, whose colon is encoded.
            Some(rest) => {
                let end = rest.find([':', '%']).unwrap_or(rest.len());
                Self::of_host(&rest[..end])
            }
            None => Self::Account(did.into()),
        }
    }

    /// The tenant for this tenant's calls to `host`.
    #[must_use]
    pub fn route_to(&self, host: &str) -> Self {
        Self::Route(Arc::new((self.clone(), Self::of_host(host))))
    }

    /// Reads what `Display` writes; `None` for any other text, and for routes, which are never stored.
    pub fn parse(text: &str) -> Option<Self> {
        if text == INSTANCE {
            return Some(Self::Instance);
        }
        let (kind, name) = text.split_once(' ')?;
        match kind {
            "client" => Some(Self::Client(name.into())),
            "domain" => Some(Self::Domain(name.into())),
            "account" => Some(Self::Account(name.into())),
            "address" => name.parse().ok().map(Self::Address),
            _ => None,
        }
    }

    /// The tenant of a network address.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::Address(v4.into()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Self::Address(std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
    }
}

/// A unique text for each tenant, used as the key of rate-limit buckets and in database columns.
impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(id) => write!(f, "client {id}"),
            Self::Domain(name) => write!(f, "domain {name}"),
            Self::Account(did) => write!(f, "account {did}"),
            Self::Address(address) => write!(f, "address {address}"),
            Self::Instance => f.write_str(INSTANCE),
            Self::Route(route) => write!(f, "route of {} to {}", route.0, route.1),
        }
    }
}

/// The name that was registered at a registry: the label below the public suffix (`co.uk`), and that suffix. Suffixes under
/// which a company hands out names (`github.io`) are part of its own name: there anybody has any number of them.
fn registrable(host: &str) -> &str {
    let mut rest = host;
    let suffix = loop {
        match psl::suffix(rest.as_bytes()) {
            Some(suffix) if suffix.typ() == Some(psl::Type::Private) => {
                let Some((_, parent)) = rest[rest.len() - suffix.as_bytes().len()..].split_once('.') else {
                    return host;
                };
                rest = parent;
            }
            Some(suffix) => break suffix.as_bytes().len(),
            None => return host,
        }
    };
    let Some(above) = host.len().checked_sub(suffix + 1) else { return host };
    let label = host[..above].rfind('.').map_or(0, |dot| dot + 1);
    &host[label..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_belongs_to_the_owner_of_its_domain() {
        let domain = |name: &str| Tenant::Domain(name.into());
        for (host, tenant) in [
            ("example.com", domain("example.com")),
            ("a.b.Example.com.", domain("example.com")),
            ("x.shop.co.uk", domain("shop.co.uk")),
            ("co.uk", domain("co.uk")),
            ("a.shop.pvt.k12.ma.us", domain("shop.pvt.k12.ma.us")),
            ("a.b.github.io", domain("github.io")),
            ("github.io", domain("github.io")),
            ("a.s3.eu-west-1.amazonaws.com", domain("amazonaws.com")),
            ("a.b.unknown", domain("b.unknown")),
            (".", domain("")),
            ("a..", domain("a")),
            ("localhost", domain("localhost")),
            ("", domain("")),
            ("127.0.0.1", Tenant::Address([127, 0, 0, 1].into())),
            ("[::ffff:10.0.0.1]", Tenant::Address([10, 0, 0, 1].into())),
        ] {
            assert_eq!(Tenant::of_host(host), tenant, "{host}");
        }
    }

    #[test]
    fn each_tenant_has_a_unique_text() {
        let all = [
            Tenant::client("a"),
            Tenant::of_host("a"),
            Tenant::of_did("did:plc:a"),
            Tenant::of_host("10.0.0.1"),
            Tenant::Instance,
        ];
        let texts = all.map(|tenant| tenant.to_string());
        assert_eq!(texts, ["client a", "domain a", "account did:plc:a", "address 10.0.0.1", "instance"]);
    }

    #[test]
    fn a_did_belongs_to_its_domain_or_to_itself() {
        for (did, tenant) in [
            ("did:web:a.example.com", Tenant::Domain("example.com".into())),
            ("did:web:b.example.com%3A3000", Tenant::Domain("example.com".into())),
            ("did:web:example.com:users:a", Tenant::Domain("example.com".into())),
            ("did:plc:abc", Tenant::Account("did:plc:abc".into())),
        ] {
            assert_eq!(Tenant::of_did(did), tenant, "{did}");
        }
    }

    #[test]
    fn a_tenant_round_trips_through_its_text() {
        for tenant in [
            Tenant::client("id"),
            Tenant::of_host("example.com"),
            Tenant::of_did("did:plc:abc"),
            Tenant::of_host("2001:db8::1"),
            Tenant::Instance,
        ] {
            assert_eq!(Tenant::parse(&tenant.to_string()), Some(tenant));
        }
        let route = Tenant::client("id").route_to("pds.example.com");
        assert_ne!(route, Tenant::client("id").route_to("pds.example.net"));
        for text in ["", "client", "nothing x", "address x", &route.to_string()] {
            assert_eq!(Tenant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_tenant() {
        let of = |text: &str| Tenant::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }
}
