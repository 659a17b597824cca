//! Our HTTP server on hyper. It knows requests, responses and limits, and nothing of the domain.
//!
//! A connection is accepted and watched by [`server`], a request goes through `dispatch` to the endpoint that the
//! [`router`] finds. Errors: a handler returns [`Error`], which has an external voice (status and `{error}` body)
//! and an internal one (a cause for the log). Rooms below have small enums of their own and never see this type.

mod access_log;
mod answers;
pub mod body;
mod cors;
mod dispatch;
pub mod error;
mod id;
pub mod limits;
mod measure;
pub mod nul;
pub mod request;
pub mod response;
pub mod router;
pub mod server;
mod watch;

pub use cors::Cors;
pub use dispatch::Http;
pub use error::Error;
pub use request::Request;
pub use response::{Body, Response};
