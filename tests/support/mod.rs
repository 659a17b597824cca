//! Support for tests: server processes, and stand-ins that depend on the server's own code. Those that don't are
//! in `tests/standins`.

pub mod app;
pub mod event_stream;
pub mod instance;
pub mod linked_service;
pub mod openapi;
pub mod oauth_pds;
pub mod plc;
mod plc_operations;
pub mod plugins;
pub mod process;
