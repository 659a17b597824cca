//! `/admin/stats`

pub mod get;
