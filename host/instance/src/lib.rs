//! The state and the work of an instance without scripts: its configuration, identities, lexicons, the index, and
//! repos.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod config; // the environment, read once
pub mod checks; // checks what the server needs, for doctor and the admin API
pub mod identity; // resolves DIDs to DID documents, with a cache
pub mod blob_hosts; // the servers with the blobs of records
pub mod people; // the handles of accounts, looked up once and kept in the database
pub mod events; // the event log: one enum of events, written as rows
pub mod history; // how much the server did, by time
pub mod jobs; // the job queue, retention, indexes of fields
pub mod oauth; // authorization servers: discovery, DPoP proofs, tokens
pub mod keys; // keys that the instance generates for itself, and its signatures over records
pub mod service_identity; // the instance's own DID: its keys, its services, operations of the PLC directory
pub mod labels; // the labels that the instance issues as a labeler
pub mod moderation; // what operators and scripts hide and take down
pub mod lexicons; // the registry of uploaded lexicons; authorities and which methods are forwarded to them
pub mod core; // what the parts of a running server share
pub mod subscriptions; // connections that get the changes of a collection
pub mod alerts; // conditions about measurements that operators want to know of, and the webhooks that are called
pub mod indexing; // follows the stream and writes the index
pub mod network_lexicons; // lexicons that follow their publishers on the network: resolved, fetched, kept up to date
pub mod settings; // settings that admins change while the server runs
pub mod backfill; // reads the history of collections from PDSs into the index
pub mod pds; // writes to users' repos at their PDSs, with the users' OAuth sessions
pub mod xrpc; // an XRPC call as a value: method, parameters, caller, answer; no I/O
pub mod repos; // writes to a repo and to the index together; linked repos, whose owners let the instance write
pub mod spaces; // permissioned spaces: who may see and change what, their records, members and invites
