//! The Lua engine.
