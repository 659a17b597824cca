//! The HTTP server, on hyper: connections, limits, routing, CORS and error responses. It knows nothing of the domain.
//!
//! [`server`] accepts a connection and closes it when its client stalls; `dispatch` passes each request to the endpoint
//! that the [`router`] finds. A handler returns [`Error`], which has a status and an `{error}` body for the client and
//! a cause for the log. Rooms below return error enums of their own and do not use this type.

mod access_log;
pub mod body;
mod cors;
mod dispatch;
pub mod error;
pub mod event_stream;
mod id;
pub mod limits;
mod monitor;
pub mod nul;
mod pace;
pub mod request;
pub mod response;
mod response_memory;
mod route_metrics;
pub mod router;
pub mod server;
pub mod websocket;

pub use cors::Cors;
pub use dispatch::Http;
pub use error::Error;
pub use event_stream::EventStream;
pub use request::Request;
pub use response::{Body, Response};
