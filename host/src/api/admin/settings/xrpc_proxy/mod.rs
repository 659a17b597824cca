//! `/admin/settings/xrpc-proxy`: which methods without a lexicon here are forwarded.

pub mod get;
pub mod put;
