use belvedere_base::random::Random;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::atproto::{Tid, record};
use crate::crypto::{Algorithm, PrivateKey};
use crate::spaces::{SpaceRepo, SpaceUri};

const PATHS: [&str; 5] = [
    "com.example.spaceRecord/self",
    "com.example.note/z",
    "com.example.note/a",
    "com.example.note/longer-record-key",
    "com.example.spaceNote/3lzzzzzzzzz23",
];

fn space() -> SpaceUri {
    SpaceUri::parse("at://did:plc:abc/space/com.example.group/main").unwrap()
}

fn key() -> PrivateKey {
    PrivateKey::generate(Algorithm::Es256k, &Random::seeded(5))
}

fn signed(hash: [u8; 32]) -> Commit {
    let space = space();
    Commit::sign(
        SpaceRepo { space: &space, author: &space.did },
        Tid::new(9, 1).unwrap(),
        hash,
        [1; 32],
        &key(),
    )
}

fn record_of(path: &str) -> (Entry, Vec<u8>) {
    let json = json!({ "$type": path.split('/').next(), "text": path }).to_string();
    let cbor = record::to_cbor(json.as_bytes()).unwrap().unwrap();
    ((RecordPath::parse(path).unwrap(), car::cid_of(&cbor)), cbor)
}

fn commit_to(entries: &[Entry]) -> Commit {
    let mut hash = SetHash::default();
    for (path, cid) in entries {
        hash.add(path, *cid);
    }
    signed(hash.digest())
}

/// The export of records with these paths, and its CAR.
fn export(paths: &[&str]) -> (Export, Vec<u8>) {
    let records: Vec<_> = paths.iter().map(|path| record_of(path)).collect();
    let entries: Vec<Entry> = records.iter().map(|(entry, _)| entry.clone()).collect();
    let export = Export::new(&commit_to(&entries), entries);
    let mut car = export.head().to_vec();
    for (path, cid) in export.entries() {
        Export::append_record(&mut car, *cid, &record_of(&path.to_string()).1);
    }
    (export, car)
}

/// A CAR with any two blocks as its roots, and more blocks.
fn assembled(commit: &[u8], index: &[u8], others: &[&[u8]]) -> Vec<u8> {
    let mut car = car::header(&[car::cid_of(commit), car::cid_of(index)]);
    for block in [commit, index].iter().chain(others) {
        car::append_block(&mut car, car::cid_of(block), block);
    }
    car
}

#[test]
fn an_export_reads_back_in_canonical_order() {
    let (export, car) = export(&PATHS);
    let paths: Vec<String> = export.entries().iter().map(|(path, _)| path.to_string()).collect();
    let shortest_first = [PATHS[2], PATHS[1], PATHS[0], PATHS[3], PATHS[4]];
    assert_eq!(paths, shortest_first);
    let read = SpaceCar::read(car.into()).unwrap();
    assert!(read.has_records());
    assert_eq!(read.entries(), export.entries());
    let (space, hash) = (space(), read.commit().hash);
    read.commit().verify(SpaceRepo { space: &space, author: &space.did }, &key().public(), &hash).unwrap();
    for (path, cid) in read.entries() {
        let json: Value = serde_json::from_slice(&read.json(*cid).unwrap()).unwrap();
        assert_eq!(json["text"], path.to_string());
    }
}

#[test]
fn the_head_is_a_car_without_records() {
    let (export, _) = export(&PATHS);
    let read = SpaceCar::read(export.head().to_vec().into()).unwrap();
    assert!(!read.has_records());
    assert_eq!(read.entries(), export.entries());
    let missing = read.entries()[0].1;
    assert_eq!(read.json(missing), Err(InvalidBlocks::MissingBlock(missing).into()));
}

#[test]
fn an_index_in_the_order_of_its_texts_is_accepted() {
    let (export, _) = export(&["com.example.note/bb", "com.example.note/c"]);
    let mut index = vec![0xa2];
    let mut sorted = export.entries().to_vec();
    sorted.sort_by_key(|(path, _)| path.to_string());
    for (path, cid) in sorted {
        let single = path.to_string();
        // The entry of a map with one entry, without the head of the map.
        index.extend_from_slice(&cbor_map::encode(vec![(&single, CborValue::Cid(cid))])[1..]);
    }
    let read = SpaceCar::read(assembled(&commit_to(export.entries()).to_cbor(), &index, &[]).into()).unwrap();
    assert_eq!(read.entries(), export.entries());
}

#[test]
fn says_what_is_wrong_with_a_car() {
    let (entry, record) = record_of(PATHS[0]);
    let commit = commit_to(std::slice::from_ref(&entry)).to_cbor();
    let index_of = |key: &str, value: CborValue<'_>| cbor_map::encode(vec![(key, value)]);
    let link = || CborValue::Cid(entry.1);
    let good = index_of(PATHS[0], link());
    let other = record_of(PATHS[1]).1;
    let raw = [&good[..good.len() - 35], &[0x55], &good[good.len() - 34..]].concat();
    for (commit, index, others, why) in [
        (&commit, &good, vec![&other[..]], "is missing"),
        (&b"\xa0".to_vec(), &good, vec![], "commit is malformed: its ver"),
        (&signed([0; 32]).to_cbor(), &good, vec![&record], "hash is not that of the records"),
        (&commit, &index_of(PATHS[1], link()), vec![], "hash is not that of the records"),
        (&commit, &index_of("note/self", link()), vec![], "a key is not <collection>/<rkey>"),
        (&commit, &index_of("a.b.c/a/b", link()), vec![], "a key is not <collection>/<rkey>"),
        (&commit, &index_of(PATHS[0], CborValue::Bytes(&[0; 40])), vec![], "not a link to a record"),
        (&commit, &raw, vec![], "not a link to a record"),
        (&commit, &b"\x80".to_vec(), vec![], "not a map with unique keys"),
        (&commit, &vec![0xbb; 9], vec![], "not a map with unique keys"),
    ] {
        let error = SpaceCar::read(assembled(commit, index, &others).into()).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    assert!(SpaceCar::read(assembled(&commit, &good, &[&record]).into()).is_ok());
    let mut one_root = car::header(&[car::cid_of(&commit)]);
    car::append_block(&mut one_root, car::cid_of(&commit), &commit);
    let error = SpaceCar::read(one_root.into()).unwrap_err();
    assert_eq!(error, InvalidBlocks::Roots { found: 1, expected: 2 }.into());
}

#[test]
fn a_record_under_very_many_paths_is_refused() {
    let large =
        record::to_cbor(json!({ "text": "x".repeat(200_000) }).to_string().as_bytes()).unwrap().unwrap();
    let cid = car::cid_of(&large);
    let of = |count: usize| {
        let path = |n| RecordPath::parse(&format!("com.example.note/{n}")).unwrap();
        let entries: Vec<Entry> = (0..count).map(|n| (path(n), cid)).collect();
        let mut car = Export::new(&commit_to(&entries), entries).head().to_vec();
        Export::append_record(&mut car, cid, &large);
        SpaceCar::read(car.into()).map(|car| car.entries().len())
    };
    assert_eq!(of(3), Ok(3));
    assert_eq!(of(100), Err(InvalidBlocks::RefersToMore.into()));
}

#[test]
fn a_record_above_the_limit_is_refused() {
    // The map, its key and the head of the text take eight bytes.
    for (length, is_refused) in [(MAX_RECORD_BYTES - 8, false), (MAX_RECORD_BYTES - 7, true)] {
        let record = cbor_map::encode(vec![("a", CborValue::Text(&"x".repeat(length)))]);
        let entry = (RecordPath::parse(PATHS[0]).unwrap(), car::cid_of(&record));
        let mut car =
            Export::new(&commit_to(std::slice::from_ref(&entry)), vec![entry.clone()]).head().to_vec();
        Export::append_record(&mut car, entry.1, &record);
        let expected = InvalidBlocks::LargeBlock(entry.1, MAX_RECORD_BYTES).into();
        assert_eq!(SpaceCar::read(car.into()).err(), is_refused.then_some(expected), "{}", record.len());
    }
}

#[test]
fn the_roots_are_dag_cbor() {
    let (export, _) = export(&PATHS);
    let mut car = export.head().to_vec();
    // The codec of the first root, in the header and at its block.
    let cid = car::cid_of(&commit_to(export.entries()).to_cbor()).to_bytes();
    let at: Vec<usize> = (0..car.len() - cid.len()).filter(|at| car[*at..].starts_with(&cid)).collect();
    assert_eq!(at.len(), 2);
    for at in at {
        car[at + 1] = 0x55;
    }
    assert_eq!(SpaceCar::read(car.into()).unwrap_err(), InvalidSpaceCar::Index("a root is not DAG-CBOR"));
}

#[test]
fn every_truncated_car_is_refused() {
    let (export, car) = export(&PATHS);
    let head = export.head().len();
    for end in (0..car.len()).filter(|end| *end != head) {
        assert!(SpaceCar::read(car[..end].to_vec().into()).is_err(), "{end} of {} bytes", car.len());
    }
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let _ = SpaceCar::read(bytes.clone().into());
        let _ = SpaceCar::read(assembled(&bytes, &bytes, &[]).into());
        let (_, mut car) = export(&PATHS);
        let at = at.index(car.len());
        let is_same = car[at] == with;
        car[at] = with;
        // Every byte is covered by a CID, or is part of the header or of a block's length.
        prop_assert!(SpaceCar::read(car.into()).is_err() || is_same);
    }

    #[test]
    fn any_set_of_records_round_trips(keys in prop::collection::btree_set("[a-z]{1,6}", 0..12), seed in any::<u64>()) {
        let mut paths: Vec<String> = keys.iter().map(|key| format!("com.example.n{}/{key}", "x".repeat(key.len() % 3))).collect();
        let turn = usize::try_from(seed % 13).unwrap() % paths.len().max(1);
        paths.rotate_left(turn);
        let texts: Vec<&str> = paths.iter().map(String::as_str).collect();
        let (export, car) = export(&texts);
        let read = SpaceCar::read(car.into()).unwrap();
        prop_assert_eq!(read.entries(), export.entries());
        prop_assert_eq!(read.entries().len(), keys.len());
    }
}
