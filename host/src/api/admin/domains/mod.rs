//! `/admin/domains`: origins that the instance is reached by, each an OAuth client of its own.

pub mod create;
pub mod delete;
pub mod list;
pub mod primary;
mod view;
