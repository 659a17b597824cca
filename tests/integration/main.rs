//! The booted server, driven over HTTP, on both databases. The tree mirrors the URLs.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod admin;
mod command_line;
mod crash;
mod docs;
mod fixtures;
mod health;
mod http;
mod store;
mod xrpc;
