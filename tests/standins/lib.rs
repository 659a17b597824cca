//! Stand-ins for servers of the network, a private PostgreSQL, and what else unit tests, integration tests, benchmarks
//! and fuzz targets share. Depends on none of belvedere's code.

pub mod cars;
pub mod citus;
mod code_flow;
pub mod database;
pub mod dns;
mod faults;
pub mod files;
mod frames;
pub mod http_client;
pub mod itchio;
pub mod jetstream;
pub mod labeler;
pub mod microsoft;
mod pages;
pub mod parameters;
pub mod plugins;
pub mod postgres;
pub mod recorder;
mod repo_servers;
pub mod repos;
mod responses;
pub mod sql_statements;
pub mod steam;
pub mod tls;
pub mod trickle;
pub mod upstream;
pub mod vectors;
pub mod websocket;
