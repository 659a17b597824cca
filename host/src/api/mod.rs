//! One endpoint, one file: the path follows the URL.

pub mod routes;
