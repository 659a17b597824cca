//! `/oauth/sessions/{did}/devices`

pub mod delete;
pub mod list;
