//! `/admin/settings`: what operators change while the server runs.

pub mod xrpc_proxy;
