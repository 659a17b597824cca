//! The booted server, driven over HTTP, on both databases. The tree mirrors the URLs.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod crash;
mod docs;
mod fixtures;
mod store;
mod xrpc;
