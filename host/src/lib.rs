//! Belvedere, an atproto AppView server. Each module is a room that knows one thing; a request or an event
//! passes through them in one direction (`docs/architecture.md` has the picture).

pub mod access; // who is calling and what they may do
pub mod api; // one endpoint, one file: the path follows the URL
pub mod app; // what is shared, built once, in order
pub mod atproto; // the protocol's syntax, CIDs and lexicon documents; no I/O
pub mod attestation; // signatures over records
pub mod changes; // what hosts keep in memory, and how they hear of its changes
pub mod cli; // serve, migrate, doctor, admin
pub mod clock; // the only source of the current time
pub mod config; // the environment, read once
pub mod crypto; // keys, signatures, sealing, hashing; no I/O
pub mod events; // the event log: one enum of events, written as rows
pub mod fair_share; // places that tenants share fairly
pub mod http; // our HTTP server; knows no domain
pub mod identity; // DIDs to documents, cached
pub mod indexing; // from stream to index
pub mod instance_key; // keys that the instance made for itself
pub mod jobs; // background work and retention sweeps
pub mod lexicons; // the registry of uploaded lexicons
pub mod lifecycle; // signals, drain, hard stop
pub mod linked_repos; // repos whose owners let the instance write to them
pub mod net; // the only outbound client, guarded
pub mod oauth; // authorization servers: discovery, proofs, tokens
pub mod pds; // writing to a user's repo, with a session they gave us
pub mod random; // the only source of randomness
pub mod records; // reading the index
pub mod scripts; // the Lua engine
pub mod settings; // what admins change while the server runs
pub mod store; // all SQL
pub mod triggers; // scripts that decide about events
