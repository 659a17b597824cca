//! Parses query arguments: filters, sort orders, paths into records, and cursors. No I/O.
//!
//! Scripts' `db.query` and the built-in queries share these types, so that a cursor or filter means the same in both.

pub mod cursor;
pub mod filter;
mod narrow;
mod page_size;
pub mod path;
mod records;
mod search;
pub mod sort;
mod validity;

pub use cursor::{InvalidCursor, Keyset, Position};
pub use filter::Filter;
pub use narrow::{HasLabel, Hidden, Narrow};
pub use page_size::PageSize;
pub use path::Path;
pub use records::{Backlinks, Links, Query, Related, Relation};
pub use search::{Search, SearchError};
pub use sort::{Direction, Sort, SortKey};
pub use validity::valid;
