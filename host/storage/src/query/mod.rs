//! Parses query arguments: filters, sort orders, paths into records, and cursors. No I/O.
//!
//! Scripts' `db.query` and the built-in queries share these types, so that a cursor or filter means the same in both.

pub mod cursor;
pub mod filter;
pub mod group;
mod narrow;
mod page_size;
pub mod path;
mod position;
mod records;
mod relevance;
mod search;
pub mod sort;
mod sql_page;
mod validity;

pub use cursor::{InvalidCursor, Keyset};
pub use filter::Filter;
pub use group::Group;
pub use narrow::{HasLabel, Hidden, Narrow};
pub use page_size::PageSize;
pub use path::Path;
pub use position::Position;
pub use records::{Backlinks, Below, InvalidLinkPath, Links, Query, Related, Relation};
pub use relevance::Relevance;
pub use search::MAX_FIELDS as MAX_SEARCH_FIELDS;
pub use search::{Search, SearchError};
pub use sort::{Direction, InvalidSort, Sort, SortKey};
pub use sql_page::{SqlPage, SqlPageError};
pub use validity::valid;
