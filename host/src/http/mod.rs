//! Our HTTP server on hyper. It knows requests, responses and limits, and nothing of the domain.
//!
//! Errors: a handler returns [`Error`], which has an external voice (status and `{error}` body) and an internal
//! one (a cause for the log). Rooms below have small enums of their own and never see this type.

pub mod error;
pub mod request;
pub mod response;
pub mod router;

pub use error::Error;
pub use request::Request;
pub use response::{Body, Response};
