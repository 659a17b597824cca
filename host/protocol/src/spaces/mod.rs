//! Permissioned spaces: the state of repos, tokens and the rules of access. No I/O; callers pass the time, randomness
//! and keys.
//!
//! The protocol is a draft whose wire format changes. A generation of it has one module, named as in the specification:
//! [`r10`] is the current one, and [`h8`] reads the policies of an older one. The other modules hold for every generation
//! (`docs/adr/0110-spaces-wire-format-by-generation.md`).

pub mod access;
pub mod app_gate;
pub mod config;
pub mod h8;
pub mod oplog;
pub mod r10;
pub mod set_hash;

pub use set_hash::SetHash;

pub use crate::atproto::space_uri::{InvalidSpaceUri, RecordPath, SpaceRecordUri, SpaceUri};

use crate::atproto::Did;

/// The repo of an author in a space: all records of this author there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceRepo<'a> {
    pub space: &'a SpaceUri,
    pub author: &'a Did,
}
