//! Stand-ins for servers of the network, a private PostgreSQL, and what else unit tests, integration tests, benchmarks
//! and fuzz targets share. Depends on none of belvedere's code.

pub mod cars;
pub mod database;
pub mod dns;
mod faults;
pub mod files;
mod frames;
pub mod http_client;
pub mod jetstream;
pub mod labeler;
mod pages;
pub mod parameters;
pub mod postgres;
pub mod repos;
mod responses;
pub mod sql_statements;
pub mod upstream;
pub mod vectors;
