//! Reads a repo from a CAR file (`com.atproto.sync.getRepo`) and checks it: every block against its CID, the form of the
//! commit and the whole tree. The caller checks the commit's DID and signature.

mod commit;
mod tree;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use self::commit::Commit;
use super::car::{Blocks, InvalidBlocks};
use super::{Cid, Nsid, RecordKey};

/// Bytes of one block. PDSs accept no record of this size.
const MAX_BLOCK_BYTES: usize = 1 << 20;

/// A repo as of one commit.
#[derive(Debug)]
pub struct RepoCar {
    blocks: Blocks,
    commit: Commit,
}

/// The records of one collection, in the ascending order of their keys.
pub type RecordList = Vec<(RecordKey, Cid)>;

/// Error for a CAR that is not a valid repo.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidCar {
    #[error(transparent)]
    Blocks(#[from] InvalidBlocks),
    #[error("its root is not a commit: {0}")]
    Commit(&'static str),
    #[error("node {0} of its tree is not valid: {1}")]
    Node(Cid, String),
}

impl RepoCar {
    /// Reads the blocks and the commit. Hashes the whole CAR.
    ///
    /// # Errors
    /// When the CAR is truncated or malformed, a block has another CID, or the root is not a commit.
    pub fn read(bytes: Bytes) -> Result<Self, InvalidCar> {
        let ([root], blocks) = Blocks::read(bytes, MAX_BLOCK_BYTES)?;
        let commit = Commit::parse(blocks.get(root)?)?;
        Ok(Self { blocks, commit })
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
        let mut budget = self.blocks.budget();
        tree::walk(self.commit.data, &|cid| Ok(self.blocks.get(cid)?), &mut |node, key, record| {
            let (collection, rkey) = key.split_once('/').unwrap_or((key, ""));
            let wanted = collections.iter().zip(&mut lists).find(|(nsid, _)| nsid.as_str() == collection);
            let Some((_, list)) = wanted else { return Ok(()) };
            let rkey = RecordKey::try_from(rkey)
                .map_err(|_| InvalidCar::Node(node, "a key has no valid record key".to_owned()))?;
            budget.spend(self.blocks.get(record)?.len() + rkey.as_str().len())?;
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
        Ok(self.blocks.json(record)?)
    }
}
