//! This server's own listeners: metrics, and the port that serves `/admin` and `/xrpc`. A URL from elsewhere that leads to
//! one of them would read what only the operator may, or call methods around the limits of nested calls.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::guard::plain;

/// Whether a connection to `ip` at the port of `listener` would reach it.
pub(super) fn reaches(listener: SocketAddr, ip: IpAddr) -> bool {
    let (own, ip) = (plain(listener.ip()), plain(ip));
    if own.is_unspecified() {
        return is_this_machine(ip);
    }
    // To connect to an unspecified address is to connect to loopback.
    own == ip || own.is_loopback() && (ip.is_loopback() || ip.is_unspecified())
}

/// Whether an address is one of this machine's. Connecting a UDP socket sends nothing; it only asks the routing table,
/// which answers with the address itself where that is local.
fn is_this_machine(ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Any port but 0, which can't be connected to.
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    // No route to the address: then it is not here either.
    source.is_ok_and(|source| source.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(listener: &str, ip: &str) -> bool {
        reaches(listener.parse().unwrap(), ip.parse().unwrap())
    }

    #[test]
    fn listeners_are_known_by_all_their_addresses() {
        for ip in ["127.0.0.1", "127.8.9.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"] {
            assert!(reached("127.0.0.1:9000", ip) && reached("0.0.0.0:9000", ip), "{ip}");
            assert!(reached("[::1]:9000", ip) && reached("[::]:9000", ip), "{ip}");
        }
        assert!(reached("10.1.2.3:9000", "10.1.2.3") && reached("10.1.2.3:9000", "::ffff:10.1.2.3"));
        for (listener, ip) in [
            ("10.1.2.3:9000", "10.1.2.4"),
            ("10.1.2.3:9000", "127.0.0.1"),
            ("127.0.0.1:9000", "10.1.2.3"),
            // Documentation: no machine has it.
            ("0.0.0.0:9000", "203.0.113.7"),
            ("[::]:9000", "2001:db8::7"),
        ] {
            assert!(!reached(listener, ip), "{listener} {ip}");
        }
    }
}
