//! The Lua interpreter as a WebAssembly component, built from source by this crate's build script (`build/`).
//!
//! The component implements the world of `wit/guest.wit` and imports nothing else. The host pre-initialises and
//! compiles it (`host/scripting/src/scripts/engine/image.rs`).

/// The component, not yet pre-initialised.
pub const COMPONENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.wasm"));

/// SHA-256 of [`COMPONENT`], in hex.
pub const HASH: &str = env!("BELVEDERE_GUEST_HASH");

/// Like [`COMPONENT`], for runs of which a profile is wanted: it also counts instructions by line.
pub const PROFILED_COMPONENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profiled_guest.wasm"));

/// SHA-256 of [`PROFILED_COMPONENT`], in hex.
pub const PROFILED_HASH: &str = env!("BELVEDERE_PROFILED_GUEST_HASH");
