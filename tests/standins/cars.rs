//! Builds the CAR files that PDSs serve, right and wrong ones. The tree comes from an encoder that shares no code with the
//! reader under test.

use std::collections::BTreeMap;

use k256::ecdsa::signature::Signer as _;
use k256::ecdsa::{Signature, SigningKey};
use serde_json::Value;
use shrike::car::{Block, write_all};
use shrike::cbor::varint::encode_varint;
use shrike::cbor::{Cid, Codec, encode_value};
use shrike::mst::node::{EntryData, NodeData, encode_node_data};
use shrike::mst::{DetachedTree, NoBlocks};

use crate::frames::{cbor_of, tid};

/// Collection, record key, record.
pub type Records = BTreeMap<String, BTreeMap<String, Value>>;

/// The faults of a CAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarFault {
    /// Nothing, although it is unusual: every block twice, and a block that belongs to nothing.
    Redundant,
    /// It ends in the middle of a block.
    Truncated,
    /// The length of the first block is a number without an end.
    EndlessNumber,
    /// A block claims to have 2^40 bytes.
    HugeBlock,
    /// It has no blocks.
    Empty,
    NoRoot,
    TwoRoots,
    /// Its root is a record.
    RootIsRecord,
    /// The CID of a record's block belongs to another content.
    WrongCid,
    MissingRecord,
    MissingNode,
    /// The keys of the tree are in descending order.
    Descending,
    /// Two places of the tree link the same node.
    SharedNode,
    /// A node links itself, under a false CID.
    Cycle,
    /// The commit is that of another account, signed by it.
    OtherAccount,
    /// The commit is signed by another account.
    OtherKey,
    /// The signature has a high `s`.
    HighS,
    /// The commit says something else than what was signed.
    Forged,
    /// It is the CAR of a commit from long ago.
    Old,
    /// All keys have the first record, whose block is there once.
    OneRecord,
}

impl CarFault {
    /// Those that make a CAR useless.
    pub const BAD: [Self; 18] = [
        Self::Truncated,
        Self::EndlessNumber,
        Self::HugeBlock,
        Self::Empty,
        Self::NoRoot,
        Self::TwoRoots,
        Self::RootIsRecord,
        Self::WrongCid,
        Self::MissingRecord,
        Self::MissingNode,
        Self::Descending,
        Self::SharedNode,
        Self::Cycle,
        Self::OtherAccount,
        Self::OtherKey,
        Self::HighS,
        Self::Forged,
        Self::Old,
    ];
}

/// The signing key of an account, which follows from its DID.
fn signing_key(did: &str) -> SigningKey {
    SigningKey::from_slice(Cid::compute(Codec::Raw, did.as_bytes()).hash()).expect("a scalar of the curve")
}

/// The signing key of an account as its DID document shows it.
pub fn multikey(did: &str) -> String {
    let point = signing_key(did).verifying_key().to_sec1_point(true);
    format!("z{}", bs58::encode([&[0xe7, 0x01], point.as_bytes()].concat()).into_string())
}

/// The signature of bytes by the key of an account.
pub fn sign(did: &str, bytes: &[u8]) -> Vec<u8> {
    let signature: Signature = signing_key(did).sign(bytes);
    signature.to_bytes().to_vec()
}

/// The CAR of a repo.
pub fn car(did: &str, rev: &str, records: &Records, fault: Option<CarFault>) -> Vec<u8> {
    use CarFault as F;
    let is = |other: CarFault| fault == Some(other);
    let mut paths: Vec<(String, Block)> = Vec::new();
    for (collection, records) in records {
        for (rkey, record) in records {
            paths.push((format!("{collection}/{rkey}"), block(cbor_of(record))));
        }
    }
    if is(F::OneRecord) {
        let first = paths[0].1.clone();
        for (_, record) in &mut paths {
            *record = first.clone();
        }
    }
    let (root, mut nodes) = match fault {
        Some(F::Descending) => {
            // The keys have one height, so that only their order is wrong.
            let mut flat: Vec<_> =
                paths.iter().filter(|(path, _)| shrike::mst::height_for_key(path) == 0).collect();
            flat.reverse();
            node(None, flat.iter().map(|(path, record)| (path.as_str(), record.cid, None)))
        }
        Some(F::SharedNode) => {
            let (low, high) = (of_height(&paths, 0), of_height(&paths, 1));
            let (shared, mut blocks) = node(None, [(low.0.as_str(), low.1.cid, None)].into_iter());
            let (root, more) = node(Some(shared), [(high.0.as_str(), high.1.cid, Some(shared))].into_iter());
            blocks.extend(more);
            (root, blocks)
        }
        _ => tree(&paths),
    };
    if is(F::MissingNode) {
        nodes.pop();
    }
    let signer =
        if is(F::OtherAccount) || is(F::OtherKey) { "did:plc:someoneelsesomeoneelsesom" } else { did };
    let named = if is(F::OtherAccount) { signer } else { did };
    let rev = if is(F::Old) { &tid(1, 0) } else { rev };
    let mut commit = block(commit(named, rev, root, signer, is(F::HighS)));
    if is(F::Forged) {
        // The last bytes are the version: 2 instead of 3.
        *commit.data.last_mut().expect("a commit has bytes") = 2;
        commit = block(commit.data);
    }
    let mut blocks = vec![commit];
    blocks.extend(nodes);
    let shown = if is(F::OneRecord) { 1 } else { paths.len() };
    blocks.extend(paths.into_iter().take(shown).map(|(_, record)| record));
    let commit = blocks[0].cid;
    let mut roots = vec![commit];
    match fault {
        Some(F::Redundant) => {
            blocks.extend(blocks.clone());
            blocks.push(block(cbor_of(&Value::from("unused"))));
        }
        Some(F::MissingRecord) => drop(blocks.pop()),
        Some(F::WrongCid) => {
            let last = blocks.last_mut().expect("a commit");
            last.data = cbor_of(&Value::from("something else"));
        }
        Some(F::Cycle) => {
            // The first block after the commit is a node of the tree.
            let cid = blocks[1].cid;
            blocks[1].data = node(Some(cid), std::iter::empty()).1.remove(0).data;
        }
        Some(F::Empty) => blocks.clear(),
        Some(F::NoRoot) => roots.clear(),
        Some(F::TwoRoots) => roots.push(commit),
        Some(F::RootIsRecord) => roots = vec![blocks.last().expect("a commit").cid],
        _ => {}
    }
    let mut car = write_all(&roots, &blocks).expect("a CAR");
    match fault {
        Some(F::Truncated) => car.truncate(car.len() - 7),
        Some(F::EndlessNumber) => car.splice(header_bytes(&roots).., [0xff; 64]).for_each(drop),
        Some(F::HugeBlock) => {
            encode_varint(1 << 40, &mut car);
            car.extend(commit.to_bytes());
        }
        _ => {}
    }
    car
}

fn header_bytes(roots: &[Cid]) -> usize {
    write_all(roots, &[]).expect("a CAR").len()
}

fn block(data: Vec<u8>) -> Block {
    Block { cid: Cid::compute(Codec::Drisl, &data), data }
}

fn of_height(paths: &[(String, Block)], height: u8) -> &(String, Block) {
    let found = paths.iter().find(|(path, _)| shrike::mst::height_for_key(path) == height);
    found.expect("the repo has records of every low height")
}

fn tree(paths: &[(String, Block)]) -> (Cid, Vec<Block>) {
    let mut tree = DetachedTree::new();
    for (path, record) in paths {
        tree.insert(&NoBlocks, path.clone(), record.cid).expect("a valid path");
    }
    let written = tree.flush().expect("a tree");
    (written.root, written.new_blocks.into_iter().map(|(cid, data)| Block { cid, data }).collect())
}

/// One node with whole keys, with its block.
pub fn node<'a>(
    left: Option<Cid>,
    entries: impl Iterator<Item = (&'a str, Cid, Option<Cid>)>,
) -> (Cid, Vec<Block>) {
    let entry = |(key, value, right): (&str, Cid, Option<Cid>)| EntryData {
        prefix_len: 0,
        key_suffix: key.as_bytes().to_vec(),
        value,
        right,
    };
    let node = NodeData { left, entries: entries.map(entry).collect() };
    let block = block(encode_node_data(&node).expect("a node"));
    (block.cid, vec![block])
}

/// A commit, signed with the key of `signer`.
fn commit(did: &str, rev: &str, data: Cid, signer: &str, high_s: bool) -> Vec<u8> {
    use shrike::cbor::Value;
    // In the order of DAG-CBOR: shorter keys first.
    let unsigned = [
        ("did", Value::Text(did)),
        ("rev", Value::Text(rev)),
        ("data", Value::Cid(data)),
        ("prev", Value::Null),
        ("version", Value::Unsigned(3)),
    ];
    let bytes = encode_value(&Value::Map(unsigned.to_vec())).expect("a commit");
    let signature: Signature = signing_key(signer).sign(&bytes);
    let low = signature.normalize_s();
    let signature =
        if high_s { Signature::from_scalars(low.r(), -*low.s()).expect("a signature") } else { low };
    let signature = signature.to_bytes();
    let mut fields = unsigned.to_vec();
    fields.insert(2, ("sig", Value::Bytes(&signature)));
    encode_value(&Value::Map(fields)).expect("a commit")
}

/// The beginning of a CAR without roots, and blocks of zeros, `bytes` together.
pub fn zeros(bytes: usize) -> Vec<u8> {
    let block = block(vec![0; 100_000]);
    let mut car = write_all(&[], &vec![block; bytes / 100_000]).expect("a CAR");
    car.resize(bytes, 0);
    car
}

/// The collection of [`scripted`].
pub const SCRIPTED_COLLECTION: &str = "com.example.note";

/// A CAR with right CIDs, whose tree and record `script` describes: a record of its first byte's length, then nodes, from
/// the leaves to the root. A node has a left child, a number of entries and for each its key and right child; a child is
/// one of the nodes before it.
pub fn scripted(script: &[u8]) -> Vec<u8> {
    let mut bytes = script.iter().copied();
    let length = bytes.next().unwrap_or_default();
    let record = block(bytes.by_ref().take(length.into()).collect());
    let mut blocks = vec![record.clone()];
    while let Some(left) = bytes.next() {
        let nodes = &blocks[1..];
        let child = |at: u8| nodes.get(usize::from(at)).map(|node| node.cid);
        let mut entries = Vec::new();
        for _ in 0..bytes.next().unwrap_or_default() % 8 {
            let (high, low) = (bytes.next().unwrap_or_default(), bytes.next().unwrap_or_default());
            let key = format!("{SCRIPTED_COLLECTION}/{high:02x}{low:02x}");
            entries.push((key, bytes.next().and_then(child)));
        }
        let entries = entries.iter().map(|(key, right)| (key.as_str(), record.cid, *right));
        let (_, node) = node(child(left), entries);
        blocks.extend(node);
    }
    let root = blocks.last().map_or(record.cid, |node| node.cid);
    let did = "did:plc:scriptedscriptedscripted";
    let commit = block(commit(did, &tid(1, 0), root, did, false));
    let roots = [commit.cid];
    blocks.push(commit);
    write_all(&roots, &blocks).expect("a CAR")
}
