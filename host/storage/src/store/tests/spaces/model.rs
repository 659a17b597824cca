//! Compares random batches with a map to which one write is applied at a time.

use std::collections::BTreeMap;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Cid;
use belvedere_protocol::spaces::SetHash;
use proptest::prelude::*;

use super::fixtures::*;
use crate::store::spaces::{oplog, repos};
use crate::store::testing::{TestDb, postgres, sqlite};

const KEYS: u32 = 4;
const AUTHORS: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Requires {
    Any,
    Absent,
    Present,
    Version(u64),
}

#[derive(Clone, Copy, Debug)]
struct Op {
    key: u32,
    /// `None` deletes.
    n: Option<u64>,
    requires: Requires,
}

#[derive(Clone, Debug)]
struct Step {
    author: u32,
    /// The clock may go back.
    now: i64,
    ops: Vec<Op>,
}

fn any_op() -> impl Strategy<Value = Op> {
    let requires = prop_oneof![
        6 => Just(Requires::Any),
        2 => Just(Requires::Absent),
        2 => Just(Requires::Present),
        2 => (0..3_u64).prop_map(Requires::Version),
    ];
    let n = prop_oneof![3 => (0..3_u64).prop_map(Some), 2 => Just(None)];
    (0..KEYS, n, requires).prop_map(|(key, n, requires)| Op { key, n, requires })
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..AUTHORS, 1..50_i64, prop::collection::vec(any_op(), 0..5));
    let step = step.prop_map(|(author, now, ops)| Step { author, now, ops });
    prop::collection::vec(step, 1..15)
}

type Model = BTreeMap<(u32, u32), u64>;

/// Applies a batch to the model; `None` if it is refused, else the number of changes.
fn apply_to(model: &mut Model, step: &Step) -> Option<usize> {
    let (mut after, mut changes) = (model.clone(), 0);
    for op in &step.ops {
        let place = (step.author, op.key);
        let current = after.get(&place).copied();
        let holds = match op.requires {
            Requires::Any => true,
            Requires::Absent => current.is_none(),
            Requires::Present => current.is_some(),
            Requires::Version(n) => current == Some(n),
        };
        if !holds {
            return None;
        }
        changes += usize::from(op.n.is_some() || current.is_some());
        match op.n {
            Some(n) => after.insert(place, n),
            None => after.remove(&place),
        };
    }
    *model = after;
    Some(changes)
}

fn write(op: &Op) -> Write {
    let requires = match op.requires {
        Requires::Any => Precondition::Any,
        Requires::Absent => Precondition::Absent,
        Requires::Present => Precondition::Present,
        Requires::Version(n) => Precondition::Version(numbered(n).cid),
    };
    Write { path: note(&op.key.to_string()), record: op.n.map(numbered), requires }
}

async fn check(db: TestDb, steps: Vec<Step>) {
    let space = create(&db, "main").await;
    let (mut model, mut logged) = (Model::new(), [0; AUTHORS as usize]);
    for step in &steps {
        let writes: Vec<_> = step.ops.iter().map(write).collect();
        let applied = apply(&db, space, step.author, step.now, &writes).await;
        let expected = apply_to(&mut model, step);
        assert_eq!(applied.as_ref().ok().map(|applied| applied.changes.iter().flatten().count()), expected);
        logged[step.author as usize] += expected.unwrap_or(0);
    }
    for author in 0..AUTHORS {
        let expected: BTreeMap<String, Cid> = model
            .iter()
            .filter(|((of, _), _)| *of == author)
            .map(|((_, key), n)| (note(&key.to_string()).to_string(), numbered(*n).cid))
            .collect();
        let Some(snapshot) = repos::snapshot(&db, space, &did(author)).await.unwrap() else {
            assert!(expected.is_empty() && logged[author as usize] == 0);
            continue;
        };
        let found: BTreeMap<_, _> =
            snapshot.records.iter().map(|(path, cid)| (path.to_string(), *cid)).collect();
        assert_eq!(found, expected);
        let mut fold = SetHash::default();
        snapshot.records.iter().for_each(|(path, cid)| fold.add(path, *cid));
        assert_eq!(fold, snapshot.state.hash, "the hash is that of the records");
        assert_eq!(snapshot.state.records, expected.len() as u64);
        check_log(&db, space, author, logged[author as usize], &expected).await;
    }
    assert_eq!(count(&db, "space_records").await, model.len() as i64);
}

/// The log leads to the same records, and each change begins where the one before it ended.
async fn check_log(db: &Db, space: SpaceId, author: u32, changes: usize, expected: &BTreeMap<String, Cid>) {
    let (mut replayed, mut after, mut total) = (BTreeMap::new(), None, 0);
    loop {
        let page = oplog::page(db, space, &did(author), after, 2, true).await.unwrap().unwrap();
        for logged in &page.ops {
            assert!(after < Some(logged.op.position));
            after = Some(logged.op.position);
            let path = logged.op.path.to_string();
            assert_eq!(replayed.get(&path).copied(), logged.op.change.prev());
            match logged.op.change.cid() {
                Some(cid) => replayed.insert(path, cid),
                None => replayed.remove(&path),
            };
        }
        total += page.ops.len();
        if !page.has_more {
            assert_eq!(after.map(|position| position.rev), Some(page.state.rev));
            break;
        }
    }
    assert_eq!((&replayed, total), (expected, changes));
}

fn run(cases: u32, open: impl AsyncFn() -> TestDb) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in any_steps())| {
        runtime.block_on(async { check(open().await, steps).await });
    });
}

#[test]
fn sqlite_matches_the_model() {
    run(60, sqlite);
}

#[test]
fn postgres_matches_the_model() {
    run(15, postgres);
}

on_both!(revs_increase_whatever_the_clock_says);

/// A write whose time is before 1970 does not go back before the last rev.
async fn revs_increase_whatever_the_clock_says(db: TestDb) {
    let space = create(&db, "main").await;
    let mut last = None;
    for now in [100, -5, 0, 100, 50] {
        let author = did(1);
        let writes = [put(&note("a"), now as u64 & 7)];
        let batch = Batch {
            space,
            author: &author,
            writes: &writes,
            swap_commit: None,
            is_writer: true,
            now: Timestamp(now),
        };
        let applied = writes::apply(&db, &batch).await.unwrap().unwrap();
        assert!(applied.rev > last);
        last = applied.rev;
    }
}
