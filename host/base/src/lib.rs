//! Time, randomness, files, and the life of the process. Everything else may use it.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod clock; // the only source of the current time
pub mod random; // the only source of randomness
pub mod backoff; // waits between attempts
pub mod error_text; // formats errors for logs
pub mod files; // writes files whole, also beside other processes
pub mod reloadable; // values that are read often and reloaded from the store
pub mod lifecycle; // shuts the process down: signals, drain, hard stop
pub mod hand_over_thread; // hands a thread over while it computes for long
