//! For plugins in Rust: the contract of `wit/plugin`, and what most plugins need.
//!
//! A plugin implements [`Plugin`] and one of [`AccountPlugin`], [`SyncPlugin`] and [`LibraryPlugin`], and names its type
//! and the folder of the contract once in [`account_plugin!`], [`sync_plugin!`] or [`library_plugin!`]:
//!
//! ```no_run
//! use belvedere_plugin::{Context, Fault, Function, LibraryPlugin, Plugin, library_plugin};
//! use serde_json::{Value, json};
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     const MANIFEST: &str = r#"{"id": "greeter", "name": "Greeter", "version": "1.0.0", "auth_type": "none"}"#;
//! }
//!
//! impl LibraryPlugin for Greeter {
//!     fn functions() -> Vec<Function> {
//!         vec![Function::new("greet", &["name: string"], "Greets")]
//!     }
//!
//!     fn call(name: &str, args: &[Value], _context: &Context) -> Result<Value, Fault> {
//!         match (name, args) {
//!             ("greet", [Value::String(name)]) => Ok(json!(format!("Hello {name}"))),
//!             _ => Err(Fault::bad_input("greet takes a name")),
//!         }
//!     }
//! }
//!
//! library_plugin!(Greeter, "../../wit/plugin");
//! # fn main() {} // The macro's names are those of the crate's root.
//! ```
//!
//! A module imports only what it calls, and what it imports is what it asks the operator for: a plugin that never calls
//! [`kv`] does not ask for `kv:use`.

#[doc(hidden)]
pub mod bindings;
#[doc(hidden)]
pub mod export;
mod fault;
pub mod host;
pub mod http;
mod manifest;
pub mod pkce;
pub mod time;
mod traits;
mod types;
pub mod url;

pub use bindings::imports::belvedere::plugin::kv::Scope;
pub use bindings::imports::belvedere::plugin::types::{Fault, FaultCode, StrongRef};
pub use host::{clock, kv, log, lookup, secrets};
pub use traits::{AccountPlugin, LibraryPlugin, Plugin, SyncPlugin};
pub use types::{Callback, Context, Expiry, Function, Item, Page, Profile, Start, Tokens};

#[doc(hidden)]
pub use wit_bindgen;

/// Signatures of the instance over records.
pub use bindings::imports::belvedere::plugin::attest;
