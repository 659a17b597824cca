//! `/admin/permissions`

pub mod list;
