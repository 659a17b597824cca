//! `/admin/records`

pub mod collection;
pub mod collections;
pub mod delete;
pub mod list;
