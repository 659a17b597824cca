//! `/admin/settings`: what operators change while the server runs.

pub mod db_info;
pub mod delete;
pub mod list;
pub mod logo;
pub mod put;
pub mod xrpc_proxy;
