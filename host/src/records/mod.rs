//! Reading the index: pages and response bodies. Scripts' `db.query` and the built-in queries come through here alike, so
//! that a hidden account means the same to both.

pub mod backlinks;
mod own_uri;
pub mod page;
pub mod render;
pub mod search;

pub use backlinks::Backlinks;
pub use page::{Page, Query, ReadError, clamp_limit};
