//! The HTTP endpoints: one file per resource, with a file of its own for a long endpoint. The path of a file follows
//! the URL. `routes.rs` is the whole route table.

pub mod admin;
pub mod answer;
pub mod auth;
pub mod body;
mod bulk;
mod call_history;
mod charged;
mod clients;
pub mod config;
pub mod dashboard;
pub mod external_auth;
pub mod health;
pub mod input;
pub mod link;
pub mod oauth;
mod openapi;
mod page;
pub mod paging;
pub mod route;
pub mod routes;
pub mod settings;
pub mod setup;
mod streams;
#[cfg(test)]
mod types;
pub mod view_schema;
pub mod well_known;
pub mod xrpc;
