//! Belvedere, an atproto AppView server. Each top-level module is called a room and has one responsibility.
//!
//! The handlers of requests and events, and the program. A room uses those above it in this list and none below
//! (`tests/integration/layers/` checks it). `docs/architecture.md` has the picture.

pub mod access; // authentication and permissions of callers
pub mod event_scripts; // scripts that run on record and label events
mod labelers; // follows labelers and stores their labels
mod scheduler; // starts the jobs of schedules
mod worker; // runs background jobs
mod app; // the application state, built from its parts at startup
mod methods; // answers XRPC calls: by a script, built in, or through the method's authority
pub mod api; // HTTP endpoints, one file per resource; file paths follow URLs
pub mod cli; // serve, migrate, doctor, admin

pub use belvedere_scripting::plugins::COMPILE_COMMAND;
pub use belvedere_web::net::install_tls_provider;
pub use cli::Cli;
