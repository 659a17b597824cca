//! The engines of Lua scripts and of plugins, with what they may call.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod plugins; // WebAssembly plugins: installed, called within limits, and the accounts that users link with them
pub mod scripts; // the Lua engine
pub mod views; // documents that answer query methods without code
