//! `/admin/api-clients`

pub mod auth_key;
pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod update;
mod view;
