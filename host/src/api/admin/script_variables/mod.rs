//! `/admin/script-variables`

pub mod delete;
pub mod list;
pub mod upsert;
