//! Belvedere, an atproto AppView server. Each top-level module is called a room and has one responsibility.
//!
//! The order of the rooms below is the order of the layers: a room uses those above it in this list and none below
//! (`layers/` checks it). `docs/architecture.md` has the picture.

mod clock; // the only source of the current time
mod random; // the only source of randomness
mod backoff; // waits between attempts
mod error_text; // formats errors for logs
mod files; // writes files whole, also beside other processes
mod reloadable; // values that are read often and reloaded from the store
mod lifecycle; // shuts the process down: signals, drain, hard stop
mod fair_share; // shares limited resources fairly between tenants
mod atproto; // the protocol's syntax, CIDs and lexicon documents; no I/O
mod crypto; // keys, signatures, sealing, hashing; no I/O
mod trigger; // script ids and what triggers a script; no I/O
mod net; // the only outbound client; refuses private addresses
mod websocket; // client connections over WebSocket, with pings
mod http; // the HTTP server, without domain knowledge
mod query; // query arguments: filters, orders, paths, cursors, page sizes; no I/O
mod config; // the environment, read once
mod store; // all SQL
mod checks; // checks what the server needs, for doctor and the admin API
mod identity; // resolves DIDs to DID documents, with a cache
mod events; // the event log: one enum of events, written as rows
mod hand_over_thread; // hands a thread over while it computes for long
mod history; // how much the server did, by time
mod records; // reading the index: pages and response bodies
mod jobs; // the job queue, retention, indexes of fields
mod oauth; // authorization servers: discovery, DPoP proofs, tokens
mod keys; // keys that the instance generates for itself, and its signatures over records
mod service_identity; // the instance's own DID: its keys, its services, operations of the PLC directory
mod lexicons; // the registry of uploaded lexicons; authorities and which methods are forwarded to them
mod indexing; // follows the stream and writes the index
mod network_lexicons; // lexicons that follow their publishers on the network: resolved, fetched, kept up to date
mod settings; // settings that admins change while the server runs
mod backfill; // reads the history of collections from PDSs into the index
mod pds; // writes to users' repos at their PDSs, with the users' OAuth sessions
mod xrpc; // an XRPC call as a value: method, parameters, caller, answer; no I/O
mod sandbox; // what scripts and plugins share: turns of the processor, compiled code on disk
mod repos; // writes to a repo and to the index together; linked repos, whose owners let the instance write
mod plugins; // WebAssembly plugins: installed, called within limits, and the accounts that users link with them
mod scripts; // the Lua engine
mod access; // authentication and permissions of callers
mod event_scripts; // scripts that run on record and label events
mod labelers; // follows labelers and stores their labels
mod worker; // runs background jobs
mod app; // the application state, built from its parts at startup
mod methods; // answers XRPC calls: by a script, built in, or through the method's authority
mod api; // HTTP endpoints, one file per resource; file paths follow URLs
mod cli; // serve, migrate, doctor, admin

#[doc(hidden)]
pub mod testing;

#[cfg(test)]
mod layers;

pub use cli::Cli;
pub use net::install_tls_provider;
pub use plugins::COMPILE_COMMAND;
