//! The server's side of WebSockets (RFC 6455): the upgrade of a request, and a connection on which only the server sends messages.

mod handshake;
mod socket;
#[cfg(test)]
mod tests;

pub use handshake::{Upgrade, accept, choose_protocol, is_upgrade, offered_protocols};
pub use socket::{Closing, Frame, Gone, Socket};
