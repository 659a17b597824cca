//! All SQL.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod query; // query arguments: filters, orders, paths, cursors, page sizes; no I/O
pub mod store; // all SQL
pub mod render; // response bodies of pages of records
