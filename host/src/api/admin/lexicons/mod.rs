//! `/admin/lexicons`

pub mod create;
pub mod delete;
pub mod get;
pub mod list;
mod view;
