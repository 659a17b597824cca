//! Reading the index: what may be asked (filter, sort, cursor), pages, and response bodies.
//!
//! Scripts' `db.query` and the built-in queries come through here alike, so that a cursor, a filter and a hidden
//! account mean the same to both.

pub mod backlinks;
pub mod cursor;
pub mod filter;
mod own_uri;
pub mod page;
pub mod path;
pub mod render;
pub mod search;
pub mod sort;

pub use backlinks::Backlinks;
pub use cursor::InvalidCursor;
pub use filter::{Combine, Filter, FilterError, Op, Scalar};
pub use page::{Page, Query, ReadError, clamp_limit};
pub use path::Path;
pub use sort::{Direction, Sort};
