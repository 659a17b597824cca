//! The description of the HTTP API (OpenAPI 3.1): of `/admin`, `/api/setup`, `/auth` and `/external-auth`.
//!
//! A test makes `dashboard/openapi.json` of the route table, which has the permissions, of the types that handlers take and
//! return, and of the comments above them (docs/adr/0099), and fails when the committed file is another one. The
//! integration tests compare every answer that they receive with it.

mod handler;
#[cfg(test)]
mod tests;

pub use handler::get;
