//! `/admin/stats`

pub mod get;
pub mod indexes;
pub mod scripts;
