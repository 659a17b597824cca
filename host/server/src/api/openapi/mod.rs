//! The description of the HTTP API (OpenAPI 3.1): of `/admin`, `/api/setup`, `/auth` and `/external-auth`.
//!
//! It is written in the files `*.api` beside this one, in a short notation (docs/adr/0068). A test makes
//! `dashboard/openapi.json` of them and of the route table, which has the permissions, and fails when the committed file
//! is another one. The integration tests compare every answer that they receive with it.

#[cfg(test)]
mod document;
mod handler;
#[cfg(test)]
mod notation;
#[cfg(test)]
mod tests;

pub use handler::get;
