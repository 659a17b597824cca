//! What tests stand on: databases and stand-ins.

pub mod db;
pub mod postgres;
