//! Detects addresses that reach this server's own listeners: metrics, and the port that serves `/admin` and `/xrpc`.
//! An untrusted URL that reached one of them could read what only the operator may see, or call methods without the
//! limits of nested calls.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::guard::unmapped;

/// Whether a connection to `ip` at the listener's port would reach the listener.
pub(super) fn reaches(listener: SocketAddr, ip: IpAddr) -> bool {
    let (own, ip) = (unmapped(listener.ip()), unmapped(ip));
    if own.is_unspecified() {
        return is_this_machine(ip);
    }
    // Connecting to an unspecified address connects to loopback.
    own == ip || own.is_loopback() && (ip.is_loopback() || ip.is_unspecified())
}

/// Whether an address belongs to this machine. Connecting a UDP socket sends no packet; it only consults the routing
/// table, which selects the address itself as the source when it is local.
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
    // Without a route to the address, it is not local.
    source.is_ok_and(|source| source.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(listener: &str, ip: &str) -> bool {
        reaches(listener.parse().unwrap(), ip.parse().unwrap())
    }

    #[test]
    fn a_listener_is_recognized_by_all_its_addresses() {
        for ip in ["127.0.0.1", "127.8.9.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"] {
            assert!(reached("127.0.0.1:9000", ip) && reached("0.0.0.0:9000", ip), "{ip}");
            assert!(reached("[::1]:9000", ip) && reached("[::]:9000", ip), "{ip}");
        }
        assert!(reached("10.1.2.3:9000", "10.1.2.3") && reached("10.1.2.3:9000", "::ffff:10.1.2.3"));
        for (listener, ip) in [
            ("10.1.2.3:9000", "10.1.2.4"),
            ("10.1.2.3:9000", "127.0.0.1"),
            ("127.0.0.1:9000", "10.1.2.3"),
            // Documentation addresses, which no machine has.
            ("0.0.0.0:9000", "203.0.113.7"),
            ("[::]:9000", "2001:db8::7"),
        ] {
            assert!(!reached(listener, ip), "{listener} {ip}");
        }
    }
}
