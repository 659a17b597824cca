//! `/admin/api-clients`

mod check;
pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod update;
mod view;
