//! One resource, one file, and an endpoint of its own where it is long; the path of the file follows the URL. `routes.rs` is the whole table.

pub mod admin;
pub mod auth;
mod clients;
pub mod health;
pub mod link;
pub mod oauth;
pub mod paging;
mod patch;
pub mod route;
pub mod routes;
pub mod settings;
pub mod well_known;
pub mod xrpc;
