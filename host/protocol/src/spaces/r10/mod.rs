//! The wire format of the reference implementation's alpha of 2026-10-01 (spaces-delta.md, R10).

pub mod car;
pub mod commit;
pub mod http_signature;
pub mod json_bytes;
pub mod op;
pub mod policy;
pub mod repo_list;
pub mod token;
#[cfg(test)]
pub(super) mod vectors;

pub use car::{Export, InvalidSpaceCar, SpaceCar};
pub use commit::{Commit, InvalidCommit};
pub use repo_list::RepoEntry;
