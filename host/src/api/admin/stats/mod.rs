//! `/admin/stats`

pub mod get;
pub mod scripts;
