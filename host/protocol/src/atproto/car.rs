//! Reads the blocks of a CAR file (CAR v1) and checks each against its CID. Writes the parts of such a file.
//!
//! A CAR comes from a server that may be hostile. Its length bounds the memory and time of a reader, and nothing is
//! recursive.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use shrike::car::SliceReader;
use shrike::cbor::Codec;
use shrike::cbor::Value;
use shrike::cbor::json::drisl_to_json_into;
use shrike::cbor::varint::encode_varint;

use super::{Cid, cbor_map};

/// Bytes of a CAR for each of its blocks, at least. Blocks of real repos have about 200 bytes on average; the limit keeps
/// the index of a CAR with millions of tiny blocks smaller than the CAR.
const MIN_BYTES_PER_BLOCK: usize = 96;

/// Blocks that any CAR may have, however small they are.
pub(super) const FREE_BLOCKS: usize = 1_000;

/// Bytes of records and keys that a CAR may refer to, for each of its bytes. Many keys may have the same record, whose block
/// a CAR has once: so a small one could stand for any number of bytes. In real repos hardly any two records are equal.
const MAX_BYTES_PER_BYTE: usize = 2;

/// Bytes that any CAR may refer to.
const FREE_BYTES: usize = 1 << 20;

/// The longest cause that an error shows, in characters. It may repeat what the CAR contains.
const MAX_CAUSE_CHARS: usize = 120;

/// The blocks of a CAR. The content of each has the CID under which it is found.
#[derive(Debug)]
pub(crate) struct Blocks {
    bytes: Bytes,
    /// The position of the content of each block.
    ranges: HashMap<Cid, Range<usize>>,
}

/// Error for a file that is not a CAR, or lacks a block.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidBlocks {
    #[error("it is not a CAR file: {0}")]
    Format(String),
    #[error("it has {found} roots instead of {expected}")]
    Roots { found: usize, expected: usize },
    #[error("it has more blocks than its size allows")]
    TooManyBlocks,
    #[error("block {0} is larger than {1} bytes")]
    LargeBlock(Cid, usize),
    #[error("the content of block {0} has another CID")]
    WrongCid(Cid),
    #[error("it refers to more than {MAX_BYTES_PER_BYTE} times its size: many keys have the same record")]
    RefersToMore,
    #[error("block {0} is missing")]
    MissingBlock(Cid),
    #[error("record {0} can't be expressed in JSON: {1}")]
    Record(Cid, String),
}

impl Blocks {
    /// Reads a CAR with `N` roots. Hashes the whole CAR.
    ///
    /// # Errors
    /// When the CAR is truncated or malformed, has another number of roots, or a block is too large or has another CID.
    pub(crate) fn read<const N: usize>(
        bytes: Bytes,
        max_block_bytes: usize,
    ) -> Result<([Cid; N], Self), InvalidBlocks> {
        let format = |error| InvalidBlocks::Format(cause(&error));
        let mut reader = SliceReader::new(&bytes).map_err(format)?;
        let found = reader.roots().len();
        let roots = reader.roots().try_into().map_err(|_| InvalidBlocks::Roots { found, expected: N })?;
        let max_blocks = (bytes.len() / MIN_BYTES_PER_BLOCK).max(FREE_BLOCKS);
        let mut ranges = HashMap::new();
        let mut count = 0;
        while let Some(block) = reader.next_block().map_err(format)? {
            count += 1;
            if count > max_blocks {
                return Err(InvalidBlocks::TooManyBlocks);
            }
            if block.data.len() > max_block_bytes {
                return Err(InvalidBlocks::LargeBlock(block.cid, max_block_bytes));
            }
            if Cid::compute(block.cid.codec(), block.data) != block.cid {
                return Err(InvalidBlocks::WrongCid(block.cid));
            }
            let start = block.data.as_ptr().addr() - bytes.as_ptr().addr();
            ranges.insert(block.cid, start..start + block.data.len());
        }
        Ok((roots, Self { bytes, ranges }))
    }

    /// The number of different blocks.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The content of a block.
    ///
    /// # Errors
    /// When the block is missing.
    pub(crate) fn get(&self, cid: Cid) -> Result<&[u8], InvalidBlocks> {
        let content = self.ranges.get(&cid).and_then(|range| self.bytes.get(range.clone()));
        content.ok_or(InvalidBlocks::MissingBlock(cid))
    }

    /// The JSON text of a record.
    ///
    /// # Errors
    /// When the record is missing, or is not canonical DAG-CBOR without floats.
    pub(crate) fn json(&self, record: Cid) -> Result<Bytes, InvalidBlocks> {
        let mut json = Vec::new();
        drisl_to_json_into(self.get(record)?, &mut json)
            .map_err(|error| InvalidBlocks::Record(record, cause(&error)))?;
        Ok(json.into())
    }

    /// The bytes of records and keys that the CAR may refer to.
    pub(crate) fn budget(&self) -> Budget {
        Budget(self.bytes.len() * MAX_BYTES_PER_BYTE + FREE_BYTES)
    }
}

/// The bytes that a CAR may still refer to.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// # Errors
    /// When the CAR refers to far more bytes than it has.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), InvalidBlocks> {
        self.0 = self.0.checked_sub(bytes).ok_or(InvalidBlocks::RefersToMore)?;
        Ok(())
    }
}

/// The text of an error, cut.
pub(super) fn cause(error: &dyn std::error::Error) -> String {
    error.to_string().chars().take(MAX_CAUSE_CHARS).collect()
}

/// The CID of a block in DAG-CBOR.
pub(crate) fn cid_of(cbor: &[u8]) -> Cid {
    Cid::compute(Codec::Drisl, cbor)
}

/// Whether a CID is that of a block in DAG-CBOR.
pub(crate) fn is_cbor(cid: Cid) -> bool {
    cid.codec() == Codec::Drisl
}

/// The header of a CAR. Blocks follow it.
pub(crate) fn header(roots: &[Cid]) -> Vec<u8> {
    let roots = Value::Array(roots.iter().copied().map(Value::Cid).collect());
    let header = cbor_map::encode(vec![("roots", roots), ("version", Value::Unsigned(1))]);
    let mut out = Vec::with_capacity(header.len() + 2);
    encode_varint(header.len() as u64, &mut out);
    out.extend_from_slice(&header);
    out
}

/// Appends a block to a CAR.
pub(crate) fn append_block(out: &mut Vec<u8>, cid: Cid, content: &[u8]) {
    let cid = cid.to_bytes();
    encode_varint((cid.len() + content.len()) as u64, out);
    out.extend_from_slice(&cid);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_json_can_not_express_is_an_error() {
        // {"a": 1.5}
        let float = [&[0xa1, 0x61, 0x61, 0xfb][..], &1.5f64.to_be_bytes()].concat();
        let cid = cid_of(&float);
        let mut car = header(&[cid]);
        append_block(&mut car, cid, &float);
        let ([root], blocks) = Blocks::read(car.into(), 100).unwrap();
        assert_eq!((root, blocks.get(cid)), (cid, Ok(&float[..])));
        let error = blocks.json(cid).unwrap_err();
        assert!(
            matches!(&error, InvalidBlocks::Record(of, why) if *of == cid && why.contains("1.5")),
            "{error}"
        );
        let missing = cid_of(&[0x60]);
        assert_eq!(blocks.json(missing).unwrap_err(), InvalidBlocks::MissingBlock(missing));
    }
}
