//! Belvedere, an atproto AppView server. Each top-level module is called a room and has one responsibility.
//!
//! The order of the rooms below is the order of the layers: a room uses those above it in this list and none below
//! (`layers/` checks it). `docs/architecture.md` has the picture.

pub mod clock; // the only source of the current time
pub mod random; // the only source of randomness
pub mod error_text; // formats errors for logs
pub mod reloadable; // values that are read often and reloaded from the store
pub mod lifecycle; // shuts the process down: signals, drain, hard stop
pub mod fair_share; // shares limited resources fairly between tenants
pub mod atproto; // the protocol's syntax, CIDs and lexicon documents; no I/O
pub mod crypto; // keys, signatures, sealing, hashing; no I/O
pub mod trigger; // script ids and what triggers a script; no I/O
pub mod net; // the only outbound client; refuses private addresses
pub mod http; // the HTTP server, without domain knowledge
pub mod query; // query arguments: filters, orders, paths, cursors, page sizes; no I/O
pub mod config; // the environment, read once
pub mod store; // all SQL
pub mod identity; // resolves DIDs to DID documents, with a cache
pub mod events; // the event log: one enum of events, written as rows
pub mod records; // reading the index: pages and response bodies
pub mod jobs; // the job queue, retention, indexes of fields
pub mod oauth; // authorization servers: discovery, DPoP proofs, tokens
pub mod keys; // keys that the instance generates for itself, and its signatures over records
pub mod lexicons; // the registry of uploaded lexicons; authorities and which methods are forwarded to them
pub mod indexing; // follows the stream and writes the index
pub mod settings; // settings that admins change while the server runs
pub mod pds; // writes to users' repos at their PDSs, with the users' OAuth sessions
pub mod xrpc; // an XRPC call as a value: method, parameters, caller, answer; no I/O
pub mod repos; // writes to a repo and to the index together; linked repos, whose owners let the instance write
pub mod scripts; // the Lua engine
pub mod access; // authentication and permissions of callers
pub mod event_scripts; // scripts that run on record and label events
pub mod worker; // runs background jobs
pub mod app; // the application state, built from its parts at startup
pub mod methods; // answers XRPC calls: by a script, built in, or through the method's authority
pub mod api; // HTTP endpoints, one file per resource; file paths follow URLs
pub mod cli; // serve, migrate, doctor, admin

#[cfg(test)]
mod layers;
