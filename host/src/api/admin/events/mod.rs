//! `/admin/events`

pub mod list;
