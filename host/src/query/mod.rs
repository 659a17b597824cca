//! What may be asked of the index: filters, orders, paths into records, and cursors. Nothing here reads anything.
//!
//! Scripts' `db.query` and the built-in queries ask in these words alike, so that a cursor and a filter mean the same to
//! both.

pub mod cursor;
pub mod filter;
mod page_size;
pub mod path;
pub mod sort;

pub use cursor::{InvalidCursor, Keyset};
pub use filter::{Combine, Filter, FilterError, Op, Scalar};
pub use page_size::PageSize;
pub use path::Path;
pub use sort::{Direction, Sort};
