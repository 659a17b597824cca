//! Decides from the text of a URL whether a request may be sent to it, and which address checks its host needs.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use super::{NetError, guard, own_listeners};

/// Restricts the URLs and addresses that outbound requests may reach.
#[derive(Clone, Debug, Default)]
pub struct OutboundPolicy {
    /// Permits loopback addresses, also over plain http (set when PUBLIC_URL is loopback).
    pub allow_loopback: bool,
    /// Host names and addresses from OUTBOUND_ALLOW, lower case: exempt from the address guard and from https.
    pub allow: Vec<String>,
    /// URLs from the configuration (JETSTREAM_URL, PLC_URL, RELAY_URL). Their hosts are exempt like those of `allow`,
    /// but only on these ports and only for calls through [`super::Client::trusted`]: an untrusted URL that names the
    /// same host is guarded.
    pub trusted: Vec<Url>,
    /// The addresses on which this server listens. Only trusted calls reach them, even when `allow` names the host.
    pub own: Vec<SocketAddr>,
    /// DNS server to use instead of the system's.
    pub dns_server: Option<SocketAddr>,
}

/// The chooser of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChosenBy {
    /// The operator, in the configuration.
    Operator,
    /// A client, a script, a DID document or another server.
    Other,
    /// A program whose operator named no host for it: no host is exempt from the guard.
    Program,
}

/// The checks that the addresses of a permitted URL have to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub address_check: AddressCheck,
    /// Set when the URL's port is that of one of our own listeners: addresses that reach the listener are left out.
    pub own_port: Option<u16>,
}

/// Whether the guard ([`guard::permits`]) applies to the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AddressCheck {
    /// Every address must pass the guard.
    Guarded,
    /// The operator named the host, so any address is permitted.
    Exempt,
}

impl OutboundPolicy {
    /// Checks a URL before its host is resolved. The URL parser has already normalized every notation of an IPv4
    /// address (decimal, octal, hexadecimal, short) and refused IPv6 zones.
    ///
    /// # Errors
    /// [`NetError::Refused`] with the reason.
    pub(super) fn check(&self, url: &Url, chosen_by: ChosenBy) -> Result<Route, NetError> {
        let refused = |why: &str| Err(NetError::Refused(format!("{}: {why}", redacted(url))));
        let secure = match url.scheme() {
            "https" | "wss" => true,
            "http" | "ws" => false,
            _ => return refused("the scheme is not https"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refused("it carries credentials");
        }
        let Some(host) = url.host() else { return refused("it has no host") };
        let port = url.port_or_known_default();
        let own_port = port.filter(|_| chosen_by != ChosenBy::Operator).filter(|port| self.is_own(*port));
        let literal = match host {
            Host::Domain(_) => None,
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        };
        if let (Some(port), Some(ip)) = (own_port, literal)
            && self.reaches_own(ip, port)
        {
            return refused("a port of this server");
        }
        if self.is_exempt(url, &host, chosen_by) {
            return Ok(Route { address_check: AddressCheck::Exempt, own_port });
        }
        let loopback = guard::is_loopback_host(&host);
        if loopback && !self.allow_loopback {
            return refused("a loopback address");
        }
        if !secure && !loopback {
            return refused("the scheme is not https");
        }
        if literal.is_some_and(|ip| !guard::permits(ip, self.allow_loopback)) {
            return refused("not an address of the public internet");
        }
        Ok(Route { address_check: AddressCheck::Guarded, own_port })
    }

    /// Whether a request on this route may connect to the address.
    pub(super) fn permits(&self, ip: IpAddr, route: Route) -> bool {
        (route.address_check == AddressCheck::Exempt || guard::permits(ip, self.allow_loopback))
            && route.own_port.is_none_or(|port| !self.reaches_own(ip, port))
    }

    fn is_own(&self, port: u16) -> bool {
        self.own.iter().any(|listener| listener.port() == port)
    }

    fn reaches_own(&self, ip: IpAddr, port: u16) -> bool {
        self.own.iter().any(|listener| listener.port() == port && own_listeners::reaches(*listener, ip))
    }

    fn is_exempt(&self, url: &Url, host: &Host<&str>, chosen_by: ChosenBy) -> bool {
        let name = match host {
            Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
            Host::Ipv4(ip) => ip.to_string(),
            // Without brackets, as in OUTBOUND_ALLOW.
            Host::Ipv6(ip) => ip.to_string(),
        };
        let trusted = |t: &Url| {
            t.host().as_ref() == Some(host) && t.port_or_known_default() == url.port_or_known_default()
        };
        match chosen_by {
            ChosenBy::Operator => self.allow.contains(&name) || self.trusted.iter().any(trusted),
            ChosenBy::Other => self.allow.contains(&name),
            ChosenBy::Program => false,
        }
    }
}

/// The URL without credentials, path and query, which may contain secrets; for errors and logs.
pub(super) fn redacted(url: &Url) -> String {
    match (url.host(), url.port()) {
        (Some(host), Some(port)) => format!("{}://{host}:{port}", url.scheme()),
        (Some(host), None) => format!("{}://{host}", url.scheme()),
        (None, _) => format!("{}:", url.scheme()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &OutboundPolicy, url: &str) -> Option<AddressCheck> {
        let route = policy.check(&Url::parse(url).ok()?, ChosenBy::Other).ok()?;
        Some(route.address_check)
    }

    #[test]
    fn untrusted_urls_are_limited_to_https_and_public_hosts() {
        let policy = OutboundPolicy::default();
        for url in [
            "https://example.com/x",
            "wss://example.com",
            "https://1.1.1.1",
            "https://[2606:4700::1111]:8443",
        ] {
            assert_eq!(check(&policy, url), Some(AddressCheck::Guarded), "{url}");
        }
        for url in [
            "http://example.com",
            "ws://example.com",
            "ftp://example.com",
            "file:///etc/passwd",
            "https://user@example.com",
            "https://user:pw@example.com",
            "https://localhost",
            "https://localhost.",
            "https://a.LOCALHOST",
            "https://127.0.0.1",
            "https://127.1",
            "https://2130706433",
            "https://0x7f000001",
            "https://0x7f.0.0.1",
            "https://0177.0.0.1",
            "https://017700000001",
            "https://0",
            "https://[::1]",
            "https://[::ffff:127.0.0.1]",
            "https://[::ffff:7f00:1]",
            "https://[0:0:0:0:0:0:0:1]",
            "https://[fe80::1%25eth0]",
            "https://10.1.2.3",
            "https://0xa9fea9fe",
            "https://[64:ff9b::a9fe:a9fe]",
            "https://１２７.0.0.1",
        ] {
            assert_eq!(check(&policy, url), None, "{url}");
        }
    }

    #[test]
    fn allow_loopback_permits_loopback_over_http() {
        let policy = OutboundPolicy { allow_loopback: true, ..OutboundPolicy::default() };
        for url in ["http://localhost:2583", "http://127.0.0.1:1", "ws://[::1]:1", "https://pds.localhost"] {
            assert_eq!(check(&policy, url), Some(AddressCheck::Guarded), "{url}");
        }
        for url in ["http://example.com", "http://10.0.0.1", "https://10.0.0.1", "https://0.0.0.0"] {
            assert_eq!(check(&policy, url), None, "{url}");
        }
    }

    #[test]
    fn hosts_that_the_operator_named_are_exempt() {
        let policy = OutboundPolicy {
            allow: vec!["pds.internal".to_owned(), "10.0.0.7".to_owned(), "fd00::7".to_owned()],
            trusted: vec![
                Url::parse("http://127.0.0.1:2582/x").unwrap(),
                Url::parse("wss://jetstream").unwrap(),
            ],
            ..OutboundPolicy::default()
        };
        for url in
            ["http://pds.internal:99/x", "https://PDS.internal.", "http://10.0.0.7", "http://[fd00::7]:1"]
        {
            assert_eq!(check(&policy, url), Some(AddressCheck::Exempt), "{url}");
        }
        let check_trusted = |url: &str| {
            let route = policy.check(&Url::parse(url).unwrap(), ChosenBy::Operator);
            route.ok().map(|route| route.address_check)
        };
        for url in ["http://127.0.0.1:2582/did:plc:x", "wss://jetstream/"] {
            assert_eq!(check_trusted(url), Some(AddressCheck::Exempt), "{url}");
            assert_ne!(check(&policy, url), Some(AddressCheck::Exempt), "{url} untrusted");
        }
        for url in ["http://pds.internal:99/x", "http://10.0.0.7", "http://[fd00::7]:1"] {
            assert!(policy.check(&Url::parse(url).unwrap(), ChosenBy::Program).is_err(), "{url}");
        }
        for url in
            ["http://127.0.0.1:2583", "http://localhost:2582", "http://10.0.0.8", "http://u@pds.internal"]
        {
            assert_eq!((check(&policy, url), check_trusted(url)), (None, None), "{url}");
        }
    }

    #[test]
    fn own_listeners_are_out_of_reach() {
        let policy = OutboundPolicy {
            allow_loopback: true,
            allow: vec!["10.1.2.3".to_owned(), "localhost".to_owned(), "metrics.internal".to_owned()],
            own: vec!["0.0.0.0:9000".parse().unwrap(), "10.1.2.3:443".parse().unwrap()],
            ..OutboundPolicy::default()
        };
        for url in [
            "http://127.0.0.1:9000/metrics",
            "http://127.1:9000",
            "http://2130706433:9000",
            "http://0x7f.1:9000",
            "http://0177.0.0.1:9000",
            "http://[::1]:9000",
            "http://[::ffff:127.0.0.1]:9000",
            "ws://127.8.8.8:9000",
            "http://0.0.0.0:9000",
            "https://10.1.2.3",
        ] {
            assert_eq!(check(&policy, url), None, "{url}");
        }
        for url in ["http://127.0.0.1:9001", "http://10.1.2.3", "http://127.0.0.1"] {
            assert!(check(&policy, url).is_some(), "{url}");
        }
        // A name can be judged only by its addresses.
        let route = policy.check(&Url::parse("http://metrics.internal:9000").unwrap(), ChosenBy::Other);
        let route = route.unwrap();
        assert_eq!(route, Route { address_check: AddressCheck::Exempt, own_port: Some(9000) });
        assert!(!policy.permits("127.0.0.1".parse().unwrap(), route));
        assert!(policy.permits("10.9.9.9".parse().unwrap(), route));
    }

    #[test]
    fn errors_do_not_show_what_may_be_secret() {
        let error = OutboundPolicy::default()
            .check(&Url::parse("http://u:pw@h.test/token?x=1").unwrap(), ChosenBy::Other)
            .unwrap_err();
        assert_eq!(error.to_string(), "refused to connect: http://h.test: it carries credentials");
    }
}
