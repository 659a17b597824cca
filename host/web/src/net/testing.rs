//! Clients for the tests of other rooms.

use super::{Client, OutboundPolicy, install_tls_provider};

/// A client with this policy.
pub fn net(policy: OutboundPolicy) -> Client {
    install_tls_provider();
    Client::new(policy).expect("the client can be built")
}

/// A client that may call this machine.
pub fn loopback() -> Client {
    net(OutboundPolicy { allow_loopback: true, ..OutboundPolicy::default() })
}
