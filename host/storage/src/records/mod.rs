//! Reads pages of records from the index and renders response bodies. Scripts' `db.query` and the built-in queries both
//! use this room, so that hidden accounts are hidden in both.

pub mod backlinks;
mod own_uri;
pub mod page;
pub mod render;
pub mod search;

pub use backlinks::Backlinks;
pub use page::{Page, Query, ReadError};
