//! Support for tests: databases, server processes, and stand-ins for the servers of the network.

pub mod app;
pub mod db;
pub mod dns;
pub mod http_client;
pub mod instance;
pub mod jetstream;
pub mod oauth_pds;
pub mod plc;
pub mod postgres;
pub mod process;
pub mod sql_statements;
pub mod upstream;
