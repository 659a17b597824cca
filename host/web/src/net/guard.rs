//! Decides which addresses a request to an untrusted URL may reach: only those of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not the public internet (IANA special-purpose registry), as address and prefix length.
const V4_SPECIAL: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),           // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, cloud metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// Blocks within global unicast (2000::/3) that are not the public internet.
const V6_SPECIAL: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, ORCHID, benchmarks
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: embeds an IPv4 address
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// NAT64's well-known prefix, 64:ff9b::/96: a host without IPv4 reaches the IPv4 address in the last 32 bits through
/// it.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Whether `ip` may be connected to.
pub(super) fn permits(ip: IpAddr, allow_loopback: bool) -> bool {
    match unmapped(ip) {
        ip if ip.is_loopback() => allow_loopback,
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Converts an IPv4-mapped IPv6 address to its IPv4 address; returns any other unchanged.
pub(super) fn unmapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// Whether a host is a loopback address or a name that always resolves to one (RFC 6761).
pub(super) fn is_loopback_host(host: &url::Host<&str>) -> bool {
    match host {
        url::Host::Domain(name) => is_localhost(name),
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => unmapped(IpAddr::V6(*ip)).is_loopback(),
    }
}

pub(super) fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost")
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let bits = ip.to_bits();
    V4_SPECIAL.iter().all(|(net, len)| (bits ^ net.to_bits()) >> (32 - len) != 0)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if ip.segments()[..6] == NAT64 {
        return is_public_v4(Ipv4Addr::from_bits(ip.to_bits() as u32));
    }
    let bits = ip.to_bits();
    bits >> 125 == 1 && V6_SPECIAL.iter().all(|(net, len)| (bits ^ net.to_bits()) >> (128 - len) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_permitted() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2606:4700::1111",
            "2a00::1",
            "2001:200::1",
        ] {
            assert!(permits(public.parse().unwrap(), false), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::1.1.1.1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:0:1.1.1.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:101:101::",
            "3fff::1",
            "4000::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!permits(special.parse().unwrap(), false), "{special}");
        }
    }

    #[test]
    fn allow_loopback_permits_loopback_and_nothing_else() {
        for loopback in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(permits(loopback.parse().unwrap(), true), "{loopback}");
        }
        for other in ["0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "64:ff9b::127.0.0.1", "::127.0.0.1"] {
            assert!(!permits(other.parse().unwrap(), true), "{other}");
        }
    }

    #[test]
    fn localhost_names_are_recognized() {
        assert!(is_localhost("localhost") && is_localhost("LOCALHOST.") && is_localhost("pds.localhost"));
        assert!(!is_localhost("localhost.example.com") && !is_localhost("notlocalhost") && !is_localhost(""));
    }
}
