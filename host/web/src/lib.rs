//! The edges of the process: calls of other servers, responses to callers, and fair shares of both. Without domain knowledge.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod fair_share; // shares limited resources fairly between tenants
pub mod net; // the only outbound client; refuses private addresses
pub mod websocket; // client connections over WebSocket, with pings
pub mod http; // the HTTP server, without domain knowledge
