use std::collections::HashMap;

use belvedere_standins::cars::{CarFault, Records, SCRIPTED_COLLECTION, car, node, scripted, zeros};
use belvedere_standins::jetstream::tid;
use proptest::prelude::*;
use serde_json::{Value, json};
use shrike::car::{Block, write_all};
use shrike::cbor::Codec;

use super::super::car::FREE_BLOCKS;
use super::super::record;
use super::*;

const DID: &str = "did:plc:abcdefghijklmnopqrstuvwx";
const NOTES: &str = "com.example.note";

fn nsid(text: &str) -> Nsid {
    Nsid::try_from(text).unwrap()
}

/// `count` notes, some likes, and a collection before and after those.
fn records(count: usize) -> Records {
    let link = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
    let text = "é\u{0}\"";
    let of = |name: &str, count: usize| {
        let record =
            |n: usize| json!({ "$type": name, "n": n, "text": text, "no": null, "of": { "$link": link } });
        (0..count).map(|n| (format!("3k{n:05}"), record(n))).collect()
    };
    let names = [("com.example.like", 30), (NOTES, count), ("a.b.c", 20), ("z.y.x", 20)];
    names.map(|(name, count)| (name.to_owned(), of(name, count))).into()
}

fn read(records: &Records, fault: Option<CarFault>) -> Result<RepoCar, InvalidCar> {
    RepoCar::read(car(DID, &tid(7, 0), records, fault).into())
}

#[test]
fn reads_every_record_with_its_cid_as_json() {
    for (count, fault) in [(0, None), (1, None), (1_000, None), (50, Some(CarFault::Redundant))] {
        let records = records(count);
        let repo = read(&records, fault).unwrap();
        assert_eq!((repo.commit().did.as_str(), repo.commit().rev.to_string()), (DID, tid(7, 0)));
        let lists = repo.records(&[nsid(NOTES), nsid("com.example.none"), nsid("com.example.like")]).unwrap();
        assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [count, 0, 30]);
        for (rkey, cid) in &lists[0] {
            let json = repo.json(*cid).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), records[NOTES][rkey.as_str()]);
            assert_eq!(record::inspect(&json).unwrap().cid, Ok(*cid));
        }
        assert!(lists[0].is_sorted_by(|a, b| a.0.as_str() < b.0.as_str()));
    }
}

#[test]
fn an_empty_repo_has_no_records() {
    let repo = read(&Records::new(), None).unwrap();
    assert_eq!(repo.records(&[nsid(NOTES)]).unwrap(), [RecordList::new()]);
}

#[test]
fn says_what_is_wrong_with_a_car() {
    let records = records(300);
    let wrong = |fault| {
        let repo = read(&records, Some(fault));
        repo.and_then(|repo| repo.records(&[nsid(NOTES), nsid("z.y.x")])).unwrap_err().to_string()
    };
    for (fault, text) in [
        (CarFault::Truncated, "it is not a CAR file: invalid CAR block: truncated block data"),
        (CarFault::EndlessNumber, "it is not a CAR file"),
        (CarFault::HugeBlock, "it is not a CAR file: invalid CAR block: block length 1099511627776"),
        (CarFault::NoRoot, "it has 0 roots instead of 1"),
        (CarFault::TwoRoots, "it has 2 roots instead of 1"),
        (CarFault::RootIsRecord, "its root is not a commit: its version is neither 2 nor 3"),
        (CarFault::WrongCid, "has another CID"),
        (CarFault::Cycle, "has another CID"),
        (CarFault::Empty, "is missing"),
        (CarFault::MissingRecord, "is missing"),
        (CarFault::MissingNode, "is missing"),
        (CarFault::Descending, "its keys are not in ascending order"),
        (CarFault::SharedNode, "its keys are not in ascending order"),
    ] {
        let error = wrong(fault);
        assert!(error.contains(text), "{fault:?}: {error}");
        assert!(error.chars().count() < 300, "{error}");
    }
    // The records of other collections are not needed.
    let repo = read(&records, Some(CarFault::MissingRecord)).unwrap();
    assert_eq!(repo.records(&[nsid(NOTES)]).unwrap()[0].len(), 300);
    for text in ["", "<html>", "\u{3a}"] {
        assert!(
            matches!(RepoCar::read(text.into()), Err(InvalidCar::Blocks(InvalidBlocks::Format(_)))),
            "{text}"
        );
    }
}

/// A repo of one record of 100 kB under many keys. Few of them are a repo as any.
#[test]
fn a_car_that_refers_to_far_more_than_it_weighs_is_refused() {
    for (keys, is_refused) in [(10, false), (1_000, true)] {
        let of = |n: usize| (format!("3k{n:05}"), json!({ "$type": NOTES, "text": "x".repeat(100_000) }));
        let records = Records::from([(NOTES.to_owned(), (0..keys).map(of).collect())]);
        let bytes = car(DID, &tid(7, 0), &records, Some(CarFault::OneRecord));
        assert!(bytes.len() < 250_000, "{}", bytes.len());
        let repo = RepoCar::read(bytes.into()).unwrap();
        let lists = repo.records(&[nsid(NOTES)]).map(|lists| lists[0].len());
        let expected = if is_refused { Err(InvalidBlocks::RefersToMore.into()) } else { Ok(keys) };
        assert_eq!(lists, expected, "{keys}");
        assert_eq!(repo.records(&[nsid("com.example.like")]).unwrap(), [RecordList::new()], "not wanted");
    }
}

#[test]
fn every_truncated_car_is_refused() {
    let bytes = Bytes::from(car(DID, &tid(7, 0), &records(3), None));
    for end in 0..bytes.len() {
        let repo = RepoCar::read(bytes.slice(..end));
        let lists = repo.and_then(|repo| repo.records(&[nsid(NOTES), nsid("z.y.x")]));
        assert!(lists.is_err(), "{end} of {} bytes", bytes.len());
    }
}

fn block(data: Vec<u8>) -> Block {
    Block { cid: Cid::compute(Codec::Drisl, &data), data }
}

/// The error for a tree of these nodes.
fn wrong_tree(root: Cid, nodes: &[Block]) -> String {
    let found: HashMap<Cid, &[u8]> = nodes.iter().map(|node| (node.cid, &node.data[..])).collect();
    let lookup = |cid: Cid| found.get(&cid).copied().ok_or(InvalidBlocks::MissingBlock(cid).into());
    tree::walk(root, &lookup, &mut |_, _, _| Ok(())).unwrap_err().to_string()
}

#[test]
fn a_tree_against_the_rules_is_refused() {
    let value = block(vec![0x60]).cid;
    let key = |height: u8| {
        let keys = (0..).map(|n| format!("{NOTES}/{n}"));
        keys.into_iter().find(|key| shrike::mst::height_for_key(key) == height).unwrap()
    };
    let leaf = |key: &str| node(None, [(key, value, None)].into_iter());
    let empty = node(None, [].into_iter());
    let (low, high) = (key(0), key(2));

    let (root, nodes) = node(None, [(low.as_str(), value, None), (high.as_str(), value, None)].into_iter());
    let text = wrong_tree(root, &nodes);
    assert!(text.contains("another height") || text.contains("ascending"), "{text}");
    // A level is left out between the two nodes.
    let (child, mut nodes) = leaf(&low);
    let (root, more) = node(Some(child), [(high.as_str(), value, None)].into_iter());
    nodes.extend(more);
    assert!(wrong_tree(root, &nodes).contains("a key has another height than its node"));
    let (root, more) = node(Some(empty.0), [(high.as_str(), value, None)].into_iter());
    assert!(wrong_tree(root, &[more, empty.1.clone()].concat()).contains("it is empty"));
    let (root, more) = node(Some(child), [].into_iter());
    assert!(wrong_tree(root, &[more, leaf(&low).1].concat()).contains("no keys of its own"));
    let (root, more) = node(Some(child), [(low.as_str(), value, None)].into_iter());
    assert!(wrong_tree(root, &[more, leaf(&low).1].concat()).contains("the lowest height"));
    for key in ["", "no-slash", "com.example.note/", "com.example.note/a/b", "com.example.note/ü"] {
        let (root, nodes) = leaf(key);
        assert!(wrong_tree(root, &nodes).contains("a key is not valid"), "{key}");
    }
    let garbage = block(vec![0xa1, 0x61, 0x65, 0x01]);
    assert!(wrong_tree(garbage.cid, &[garbage]).contains("expected array"));
}

#[test]
fn blocks_are_bounded_in_number_and_size() {
    let root = block(cbor("root"));
    let tiny: Vec<_> = (0..=FREE_BLOCKS).map(|n| block(cbor(&n.to_string()))).collect();
    let car = write_all(&[root.cid], &tiny).unwrap();
    assert_eq!(RepoCar::read(car.into()).unwrap_err(), InvalidBlocks::TooManyBlocks.into());
    let large = block(vec![0; MAX_BLOCK_BYTES + 1]);
    let car = write_all(&[root.cid], &[large]).unwrap();
    assert!(matches!(RepoCar::read(car.into()), Err(InvalidCar::Blocks(InvalidBlocks::LargeBlock(..)))));
    assert_eq!(
        RepoCar::read(zeros(1 << 20).into()).unwrap_err(),
        InvalidBlocks::Roots { found: 0, expected: 1 }.into()
    );
}

fn cbor(text: &str) -> Vec<u8> {
    record::to_cbor(format!("{{\"a\":\"{text}\"}}").as_bytes()).unwrap().unwrap()
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..2_000usize, with in any::<u8>()) {
        let _ = RepoCar::read(bytes.into());
        let mut damaged = car(DID, &tid(7, 0), &records(3), None);
        let at = at % damaged.len();
        damaged[at] = with;
        if let Ok(repo) = RepoCar::read(damaged.into()) {
            let _ = repo.records(&[nsid(NOTES)]);
        }
    }

    #[test]
    fn keys_of_any_tree_ascend(script in prop::collection::vec(0..24u8, 0..200)) {
        let repo = RepoCar::read(scripted(&script).into()).unwrap();
        if let Ok(lists) = repo.records(&[nsid(SCRIPTED_COLLECTION)]) {
            prop_assert!(lists[0].is_sorted_by(|a, b| a.0.as_str() < b.0.as_str()));
        }
    }
}
