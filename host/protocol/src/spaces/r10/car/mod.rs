//! Exports a repo in a space as a CAR file, and reads such a file (spaces.md §6.2, spaces-delta.md §1).
//!
//! Two roots: the commit, and the index of the records by `<collection>/<rkey>`. Their blocks come first, then the records
//! in the order of the index. Without records the file still proves which records exist.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::commit::{Commit, InvalidCommit};
use crate::atproto::car::{self, Blocks};
use crate::atproto::record::MAX_RECORD_BYTES;
use crate::atproto::{CborValue, Cid, InvalidBlocks, cbor_map};
use crate::spaces::{RecordPath, SetHash};

/// Bytes of an index that is read: at most 1.3 million records, which take some 300 MiB of memory.
pub const MAX_INDEX_BYTES: usize = 64 << 20;

/// Bytes of the shortest entry of an index: a key like `a.b.c/d` and a link.
const MIN_ENTRY_BYTES: usize = 49;

/// A record, by its place and its content.
pub type Entry = (RecordPath, Cid);

/// The beginning of a CAR, and the order of the records that follow.
#[derive(Debug)]
pub struct Export {
    head: Vec<u8>,
    entries: Vec<Entry>,
}

impl Export {
    /// Prepares the export of a repo with these records, each path once.
    pub fn new(commit: &Commit, mut entries: Vec<Entry>) -> Self {
        // The order of keys in DAG-CBOR: shorter ones first, then by their bytes.
        entries.sort_by_cached_key(|(path, _)| {
            let text = path.to_string();
            (text.len(), text)
        });
        let paths: Vec<String> = entries.iter().map(|(path, _)| path.to_string()).collect();
        let links = paths.iter().zip(&entries).map(|(path, (_, cid))| (path.as_str(), CborValue::Cid(*cid)));
        let blocks = [commit.to_cbor(), cbor_map::encode(links.collect())];
        let roots = blocks.each_ref().map(|block| car::cid_of(block));
        let mut head = car::header(&roots);
        for (cid, block) in roots.into_iter().zip(&blocks) {
            car::append_block(&mut head, cid, block);
        }
        Self { head, entries }
    }

    /// The header and the blocks of commit and index: a complete CAR without the records.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The records in the order in which their blocks follow the head.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Appends the block of a record. `cbor`: its canonical DAG-CBOR, whose CID is `cid`.
    pub fn append_record(out: &mut Vec<u8>, cid: Cid, cbor: &[u8]) {
        car::append_block(out, cid, cbor);
    }
}

/// A repo in a space as of one commit. The commit's hash is that of its records.
#[derive(Debug)]
pub struct SpaceCar {
    blocks: Blocks,
    commit: Commit,
    entries: Vec<Entry>,
    has_records: bool,
}

/// Error for a file that is not a repo in a space.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidSpaceCar {
    #[error(transparent)]
    Blocks(#[from] InvalidBlocks),
    #[error(transparent)]
    Commit(#[from] InvalidCommit),
    #[error("its second root is not an index of records: {0}")]
    Index(&'static str),
}

impl SpaceCar {
    /// Reads a CAR, with records or without. The entries of maps may have any order. Hashes the whole file and each entry of
    /// the index, which takes seconds for large ones. The caller limits the length of the file, and checks the commit's
    /// signature with [`Commit::verify`].
    ///
    /// # Errors
    /// When the file is malformed or too large, a block has another CID, a record is missing while others are there, or the
    /// commit has the hash of other records.
    pub fn read(bytes: Bytes) -> Result<Self, InvalidSpaceCar> {
        let ([commit, index], blocks) = Blocks::read(bytes, MAX_INDEX_BYTES)?;
        if !car::is_cbor(commit) || !car::is_cbor(index) {
            return Err(InvalidSpaceCar::Index("a root is not DAG-CBOR"));
        }
        let commit = Commit::from_cbor(blocks.get(commit)?)?;
        let entries = read_index(blocks.get(index)?)?;
        let has_records = blocks.len() > 2;
        let (mut hash, mut budget) = (SetHash::default(), blocks.budget());
        for (path, cid) in &entries {
            if has_records {
                let size = blocks.get(*cid)?.len();
                if size > MAX_RECORD_BYTES {
                    return Err(InvalidBlocks::LargeBlock(*cid, MAX_RECORD_BYTES).into());
                }
                budget.spend(size)?;
            }
            hash.add(path, *cid);
        }
        if hash.digest() != commit.hash {
            return Err(InvalidCommit::Hash.into());
        }
        Ok(Self { blocks, commit, entries, has_records })
    }

    /// The commit. Its signature is not checked.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// All records, in the canonical order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the file has the records' content. A repo without records counts as one without content.
    pub fn has_records(&self) -> bool {
        self.has_records
    }

    /// The JSON text of a record.
    ///
    /// # Errors
    /// When its block is missing, or is not canonical DAG-CBOR without floats.
    pub fn json(&self, record: Cid) -> Result<Bytes, InvalidSpaceCar> {
        Ok(self.blocks.json(record)?)
    }
}

fn read_index(block: &[u8]) -> Result<Vec<Entry>, InvalidSpaceCar> {
    let map = cbor_map::decode(block, MIN_ENTRY_BYTES)
        .ok_or(InvalidSpaceCar::Index("it is not a map with unique keys"))?;
    let entry = |(path, value): (&str, CborValue<'_>)| {
        let path = RecordPath::parse(path)
            .map_err(|_| InvalidSpaceCar::Index("a key is not <collection>/<rkey>"))?;
        match value {
            CborValue::Cid(cid) if car::is_cbor(cid) => Ok((path, cid)),
            _ => Err(InvalidSpaceCar::Index("a value is not a link to a record")),
        }
    };
    map.into_iter().map(entry).collect()
}
