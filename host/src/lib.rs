//! Belvedere, an atproto AppView server. Each module is a room that knows one thing.
//!
//! The order of the rooms below is the order of the layers: a room uses those above it in this list and none below
//! (`layers.rs` checks it). `docs/architecture.md` has the picture.

pub mod clock; // the only source of the current time
pub mod random; // the only source of randomness
pub mod error_text; // errors as text for logs
pub mod reloadable; // values that are read often and reloaded from the store
pub mod lifecycle; // signals, drain, hard stop
pub mod fair_share; // places that tenants share fairly
pub mod atproto; // the protocol's syntax, CIDs and lexicon documents; no I/O
pub mod crypto; // keys, signatures, sealing, hashing; no I/O
pub mod trigger; // what fires a script; no I/O
pub mod net; // the only outbound client, guarded
pub mod http; // our HTTP server; knows no domain
pub mod query; // what may be asked of the index: filters, orders, paths, cursors; no I/O
pub mod config; // the environment, read once
pub mod store; // all SQL
pub mod identity; // DIDs to documents, cached
pub mod events; // the event log: one enum of events, written as rows
pub mod records; // reading the index: pages and response bodies
pub mod jobs; // the job queue, retention, indexes of fields
pub mod oauth; // authorization servers: discovery, proofs, tokens
pub mod keys; // keys that the instance made for itself, and its signatures
pub mod lexicons; // the registry of uploaded lexicons; authorities and what may be forwarded to them
pub mod indexing; // from stream to index
pub mod settings; // what admins change while the server runs
pub mod pds; // writing to a user's repo, with a session they gave us
pub mod xrpc; // an XRPC call as a value: method, parameters, caller, answer; no I/O
pub mod repos; // a write to a repo and its mirror in the index; repos whose owners let the instance write
pub mod scripts; // the Lua engine
pub mod access; // who is calling and what they may do
pub mod event_scripts; // scripts that decide about events
pub mod worker; // runs background jobs
pub mod app; // what is shared, built once, in order
pub mod methods; // answers XRPC calls: by a script, built in, or through the method's authority
pub mod api; // one resource, one file: the path follows the URL
pub mod cli; // serve, migrate, doctor, admin

#[cfg(test)]
mod layers;
