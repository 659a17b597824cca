//! `GET /admin/records/why`: why a record is not in the answers of queries, and what to do.

mod facts;
mod handler;
mod step;
mod verdict;

pub use handler::get;
