//! Finds the client address of requests that trusted reverse proxies (`TRUSTED_PROXIES`) forward.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use super::Problems;

/// The header to which proxies append the address that a request came from.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Addresses whose `X-Forwarded-For` is trusted. None by default, because any client can send that header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

/// A CIDR block: the addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl TrustedProxies {
    /// Parses addresses and CIDR blocks.
    pub(super) fn check(list: &[String], problems: &mut Problems) -> Self {
        let mut networks = Vec::new();
        for text in list {
            match Network::parse(text) {
                Some(network) => networks.push(network),
                None => problems.add(
                    "TRUSTED_PROXIES",
                    format!("{text:?} is neither an IP address nor a block like 10.0.0.0/8"),
                ),
            }
        }
        Self(networks)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The client address of a request: its peer, or behind trusted proxies the rightmost address of `X-Forwarded-For`
    /// that is not a trusted proxy. Entries further left were sent by that client and may be forged.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        for entry in lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',')) {
            if !self.contains(client) {
                break;
            }
            // The entry is not an address: the proxy that wrote it is the last known address.
            let Some(address) = address(entry.trim()) else { break };
            client = address;
        }
        client
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(head, bits)| (head, Some(bits)));
        let address = address.parse::<IpAddr>().ok()?.to_canonical();
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).ok()?;
        (bits <= all).then_some(Self { address, bits })
    }

    fn contains(self, other: IpAddr) -> bool {
        let common = match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        common >= self.bits
    }
}

/// Parses an address as proxies write it: possibly in brackets, possibly with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address =
        bare.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|full| full.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(list: &[&str]) -> TrustedProxies {
        let mut problems = Problems::default();
        let list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
        let proxies = TrustedProxies::check(&list, &mut problems);
        assert_eq!(problems, Problems::default());
        proxies
    }

    fn client(proxies: &TrustedProxies, peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn no_proxy_is_trusted_by_default() {
        let none = proxies(&[]);
        assert_eq!(client(&none, "127.0.0.1", &["198.51.100.7"]), "127.0.0.1");
        assert_eq!(client(&none, "::ffff:203.0.113.9", &["198.51.100.7"]), "203.0.113.9");
    }

    #[test]
    fn the_rightmost_address_that_is_not_a_proxy_is_the_client() {
        let own = proxies(&["127.0.0.1", "::1", "10.1.0.0/16", "2001:db8::/32"]);
        for (peer, lines, expected) in [
            ("127.0.0.1", &["198.51.100.7"][..], "198.51.100.7"),
            ("127.0.0.1", &["6.6.6.6, 198.51.100.7"], "198.51.100.7"),
            ("127.0.0.1", &["6.6.6.6", "198.51.100.7, 10.1.2.3"], "198.51.100.7"),
            ("::1", &["[2001:db8::9]:443, 2001:db8::8, 203.0.113.1:5000"], "203.0.113.1"),
            ("127.0.0.1", &["[2a00::1]:443, 2001:db8::8"], "2a00::1"),
            // The peer is not a trusted proxy: the header is ignored.
            ("203.0.113.5", &["198.51.100.7"], "203.0.113.5"),
            ("10.2.0.1", &["198.51.100.7"], "10.2.0.1"),
            // No header or no address: the proxy is the last known address.
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &[""], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.7, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["10.1.0.1, 10.1.0.2"], "10.1.0.1"),
        ] {
            assert_eq!(client(&own, peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn invalid_networks_are_problems() {
        let mut problems = Problems::default();
        let list = ["10.0.0.0/33", "proxy.internal", "10.0.0.0/", "::1/129", "*"].map(str::to_owned);
        assert!(TrustedProxies::check(&list, &mut problems).is_empty());
        assert_eq!(problems.iter().count(), 5);
    }
}
