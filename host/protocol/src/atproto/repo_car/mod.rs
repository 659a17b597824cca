//! Reads a repo from a CAR file (`com.atproto.sync.getRepo`) and checks it: every block against its CID, the form of the
//! commit and the whole tree. The caller checks the commit's DID and signature.
//!
//! A CAR comes from a server that may be hostile. Its length bounds the memory and time of a reader, and nothing is
//! recursive.

mod commit;
mod tree;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use shrike::car::SliceReader;
use shrike::cbor::json::drisl_to_json_into;

pub use self::commit::Commit;
use super::{Cid, Nsid, RecordKey};

/// Bytes of one block. PDSs accept no record of this size.
const MAX_BLOCK_BYTES: usize = 1 << 20;

/// Bytes of a CAR for each of its blocks, at least. Blocks of real repos have about 200 bytes on average; the limit keeps
/// the index of a CAR with millions of tiny blocks smaller than the CAR.
const MIN_BYTES_PER_BLOCK: usize = 96;

/// Blocks that any CAR may have, however small they are.
const FREE_BLOCKS: usize = 1_000;

/// Bytes of records and keys that a CAR may refer to, for each of its bytes. Many keys may have the same record, whose block
/// a CAR has once: so a small one could stand for any number of bytes. In real repos hardly any two records are equal.
const MAX_BYTES_PER_BYTE: usize = 2;

/// Bytes that any CAR may refer to.
const FREE_BYTES: usize = 1 << 20;

/// The longest cause that an error shows, in characters. It may repeat what the CAR contains.
const MAX_CAUSE_CHARS: usize = 120;

/// A repo as of one commit.
#[derive(Debug)]
pub struct RepoCar {
    bytes: Bytes,
    /// The position of the content of each block.
    blocks: HashMap<Cid, Range<usize>>,
    commit: Commit,
}

/// The records of one collection, in the ascending order of their keys.
pub type RecordList = Vec<(RecordKey, Cid)>;

/// Error for a CAR that is not a valid repo.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidCar {
    #[error("it is not a CAR file: {0}")]
    Format(String),
    #[error("it has {0} roots instead of one")]
    Roots(usize),
    #[error("it has more blocks than its size allows")]
    TooManyBlocks,
    #[error("block {0} is larger than {MAX_BLOCK_BYTES} bytes")]
    LargeBlock(Cid),
    #[error("the content of block {0} has another CID")]
    WrongCid(Cid),
    #[error("it refers to more than {MAX_BYTES_PER_BYTE} times its size: many keys have the same record")]
    RefersToMore,
    #[error("block {0} is missing")]
    MissingBlock(Cid),
    #[error("its root is not a commit: {0}")]
    Commit(&'static str),
    #[error("node {0} of its tree is not valid: {1}")]
    Node(Cid, String),
    #[error("record {0} can't be expressed in JSON: {1}")]
    Record(Cid, String),
}

impl RepoCar {
    /// Reads the blocks and the commit. Hashes the whole CAR.
    ///
    /// # Errors
    /// When the CAR is truncated or malformed, a block has another CID, or the root is not a commit.
    pub fn read(bytes: Bytes) -> Result<Self, InvalidCar> {
        let mut reader = SliceReader::new(&bytes).map_err(|error| InvalidCar::Format(cause(&error)))?;
        let &[root] = reader.roots() else { return Err(InvalidCar::Roots(reader.roots().len())) };
        let max_blocks = (bytes.len() / MIN_BYTES_PER_BLOCK).max(FREE_BLOCKS);
        let mut blocks = HashMap::new();
        let mut count = 0;
        while let Some(block) = reader.next_block().map_err(|error| InvalidCar::Format(cause(&error)))? {
            count += 1;
            if count > max_blocks {
                return Err(InvalidCar::TooManyBlocks);
            }
            if block.data.len() > MAX_BLOCK_BYTES {
                return Err(InvalidCar::LargeBlock(block.cid));
            }
            if Cid::compute(block.cid.codec(), block.data) != block.cid {
                return Err(InvalidCar::WrongCid(block.cid));
            }
            let start = block.data.as_ptr().addr() - bytes.as_ptr().addr();
            blocks.insert(block.cid, start..start + block.data.len());
        }
        let content = blocks.get(&root).cloned().and_then(|range| bytes.get(range));
        let commit = Commit::parse(content.ok_or(InvalidCar::MissingBlock(root))?)?;
        Ok(Self { bytes, blocks, commit })
    }

    /// The commit. Its signature is not checked.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Walks the whole tree, and returns the records of each of `collections`.
    ///
    /// # Errors
    /// When a node or a record of these collections is missing, or the tree is not one that the rules of the protocol
    /// lead to: then it proves nothing about which records exist. Also when the records of these collections have far more
    /// bytes than the CAR.
    pub fn records(&self, collections: &[Nsid]) -> Result<Vec<RecordList>, InvalidCar> {
        let mut lists = vec![RecordList::new(); collections.len()];
        let mut left = self.bytes.len() * MAX_BYTES_PER_BYTE + FREE_BYTES;
        tree::walk(self.commit.data, &|cid| self.block(cid), &mut |node, key, record| {
            let (collection, rkey) = key.split_once('/').unwrap_or((key, ""));
            let wanted = collections.iter().zip(&mut lists).find(|(nsid, _)| nsid.as_str() == collection);
            let Some((_, list)) = wanted else { return Ok(()) };
            let rkey = RecordKey::try_from(rkey)
                .map_err(|_| InvalidCar::Node(node, "a key has no valid record key".to_owned()))?;
            let bytes = self.block(record)?.len() + rkey.as_str().len();
            left = left.checked_sub(bytes).ok_or(InvalidCar::RefersToMore)?;
            list.push((rkey, record));
            Ok(())
        })?;
        Ok(lists)
    }

    /// The JSON text of a record.
    ///
    /// # Errors
    /// When the record is missing, or is not canonical DAG-CBOR without floats.
    pub fn json(&self, record: Cid) -> Result<Bytes, InvalidCar> {
        let mut json = Vec::new();
        drisl_to_json_into(self.block(record)?, &mut json)
            .map_err(|error| InvalidCar::Record(record, cause(&error)))?;
        Ok(json.into())
    }

    fn block(&self, cid: Cid) -> Result<&[u8], InvalidCar> {
        let content = self.blocks.get(&cid).and_then(|range| self.bytes.get(range.clone()));
        content.ok_or(InvalidCar::MissingBlock(cid))
    }
}

fn cause(error: &dyn std::error::Error) -> String {
    error.to_string().chars().take(MAX_CAUSE_CHARS).collect()
}
