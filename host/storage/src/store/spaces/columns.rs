//! Reads the columns of the tables of spaces into the protocol's types.

use std::fmt::Display;

use belvedere_protocol::atproto::{Cid, Did, Tid};
use belvedere_protocol::spaces::RecordPath;
use belvedere_protocol::spaces::access::{MemberAccess, Readable};

use super::super::StoreError;

/// The number of a space in this database. It is never used again, also when the space is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, sqlx::Type, serde::Serialize)]
#[sqlx(transparent)]
pub struct SpaceId(pub(in crate::store) i64);

/// The error for a row with a value that this server never writes.
pub(super) fn corrupt(column: &str, error: impl Display) -> StoreError {
    StoreError::Corrupt(format!("{column}: {error}"))
}

pub(super) fn cid(column: &str, bytes: &[u8]) -> Result<Cid, StoreError> {
    Cid::from_bytes(bytes).map_err(|error| corrupt(column, error))
}

pub(super) fn tid(column: &str, text: &str) -> Result<Tid, StoreError> {
    Tid::try_from(text).map_err(|error| corrupt(column, error))
}

pub(super) fn did(column: &str, text: &str) -> Result<Did, StoreError> {
    Did::try_from(text).map_err(|error| corrupt(column, error))
}

pub(super) fn path(collection: &str, rkey: &str) -> Result<RecordPath, StoreError> {
    RecordPath::of_parts(collection, rkey).map_err(|error| corrupt("the path of a record", error))
}

/// A digest of 32 bytes.
pub(super) fn digest(column: &str, bytes: Vec<u8>) -> Result<[u8; 32], StoreError> {
    bytes.try_into().map_err(|_| corrupt(column, "it does not have 32 bytes"))
}

/// The rights in the columns `reads` and `writes`.
pub(super) fn access(reads: &str, writes: bool) -> Result<MemberAccess, StoreError> {
    let all = [Readable::Nothing, Readable::Own, Readable::Everything];
    let found = all.into_iter().find(|readable| readable.as_str() == reads);
    let reads = found.ok_or_else(|| corrupt("reads", "it is not a word for rights"))?;
    Ok(MemberAccess { reads, writes })
}
