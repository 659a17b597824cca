//! Walks the tree of a repo (atproto.com/specs/repository, MST Structure).
//!
//! Checks everything that the order of the keys determines: a tree with keys out of order, at a wrong height or in a node
//! that should not exist could hide records or be much larger than its blocks.

use shrike::mst::node::{EntryData, decode_node_data};
use shrike::mst::{height_for_key, is_valid_key};

use super::super::Cid;
use super::super::car::cause;
use super::InvalidCar;

/// A node on the path from the root to the current position.
struct Frame {
    cid: Cid,
    /// The height of the node's keys. Each level below is one lower.
    height: u8,
    left: Option<Cid>,
    entries: std::vec::IntoIter<EntryData>,
    /// The key of the last entry.
    key: Vec<u8>,
}

/// Calls `each` with every key and its record in ascending order, and with the node that has them.
pub(super) fn walk<'a>(
    root: Cid,
    block: &impl Fn(Cid) -> Result<&'a [u8], InvalidCar>,
    each: &mut impl FnMut(Cid, &str, Cid) -> Result<(), InvalidCar>,
) -> Result<(), InvalidCar> {
    let Some(root) = Frame::root(root, block(root)?)? else { return Ok(()) };
    // The heights decrease, so the path has at most 129 nodes. A node that is linked twice repeats keys.
    let mut path = vec![root];
    let mut last = Vec::new();
    while let Some(frame) = path.last_mut() {
        let child = if let Some(left) = frame.left.take() {
            Some(left)
        } else if let Some(entry) = frame.entries.next() {
            let cid = frame.cid;
            let key = frame.extend_key(&entry)?;
            if key.as_bytes() <= last.as_slice() {
                return Err(invalid(cid, "its keys are not in ascending order"));
            }
            each(cid, key, entry.value)?;
            last.clone_from(&frame.key);
            entry.right
        } else {
            path.pop();
            continue;
        };
        if let Some(child) = child {
            let below = frame.height.checked_sub(1);
            let below = below.ok_or_else(|| invalid(frame.cid, "it has a child, but the lowest height"))?;
            let child = Frame::below(child, block(child)?, below)?;
            path.push(child);
        }
    }
    Ok(())
}

impl Frame {
    /// `None`: the repo is empty.
    fn root(cid: Cid, block: &[u8]) -> Result<Option<Self>, InvalidCar> {
        let frame = Self::parse(cid, block, 0)?;
        match frame.entries.as_slice().first() {
            None if frame.left.is_none() => Ok(None),
            None => Err(invalid(cid, "it is the root and has no keys of its own")),
            Some(first) => {
                let height = std::str::from_utf8(&first.key_suffix).map(height_for_key);
                let height = height.map_err(|_| invalid(cid, "a key is not valid"))?;
                Ok(Some(Self { height, ..frame }))
            }
        }
    }

    fn below(cid: Cid, block: &[u8], height: u8) -> Result<Self, InvalidCar> {
        let frame = Self::parse(cid, block, height)?;
        if frame.entries.as_slice().is_empty() && frame.left.is_none() {
            return Err(invalid(cid, "it is empty"));
        }
        Ok(frame)
    }

    fn parse(cid: Cid, block: &[u8], height: u8) -> Result<Self, InvalidCar> {
        let node = decode_node_data(block).map_err(|error| InvalidCar::Node(cid, cause(&error)))?;
        Ok(Self { cid, height, left: node.left, entries: node.entries.into_iter(), key: Vec::new() })
    }

    /// The key of the next entry, which shares the beginning of the last one.
    fn extend_key(&mut self, entry: &EntryData) -> Result<&str, InvalidCar> {
        if entry.prefix_len > self.key.len() {
            return Err(invalid(self.cid, "a key shares more than the key before it has"));
        }
        self.key.truncate(entry.prefix_len);
        self.key.extend_from_slice(&entry.key_suffix);
        let key = std::str::from_utf8(&self.key).ok().filter(|key| is_valid_key(key));
        let key = key.ok_or_else(|| invalid(self.cid, "a key is not valid"))?;
        if height_for_key(key) != self.height {
            return Err(invalid(self.cid, "a key has another height than its node"));
        }
        Ok(key)
    }
}

fn invalid(node: Cid, why: &str) -> InvalidCar {
    InvalidCar::Node(node, why.to_owned())
}
