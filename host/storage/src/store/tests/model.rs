//! Compares random batches with a simple model: maps to which one change is applied at a time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::fixtures::*;

use crate::query::Query;
use crate::store::query;
use crate::store::records;

use crate::store::index::{self, AccountStatus, Batch};
use crate::store::testing::{TestDb, postgres, sqlite, wrong_counts};
use belvedere_base::clock::Timestamp;

const ACCOUNTS: u32 = 3;
const KEYS: u32 = 4;

#[derive(Clone, Debug)]
enum Op {
    /// A record with this rev, whose only reference contains the rev.
    Put {
        account: u32,
        key: u32,
        rev: u64,
    },
    Take {
        account: u32,
        key: u32,
        rev: u64,
    },
    Account {
        account: u32,
        status: AccountStatus,
        rev: u64,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    let permit = (0..ACCOUNTS, 0..KEYS, 1..8_u64);
    prop_oneof![
        5 => permit.clone().prop_map(|(account, key, rev)| Op::Put { account, key, rev }),
        3 => permit.prop_map(|(account, key, rev)| Op::Take { account, key, rev }),
        1 => (0..ACCOUNTS, prop::sample::select(vec![
                AccountStatus::Active, AccountStatus::Deactivated, AccountStatus::Deleted,
            ]), 0..8_u64).prop_map(|(account, status, rev)| Op::Account { account, status, rev }),
    ]
}

#[derive(Debug, Default)]
struct Model {
    /// (account, key) → (rev, indexed_at)
    rows: BTreeMap<(u32, u32), (u64, i64)>,
    tombstones: BTreeMap<(u32, u32), u64>,
    /// The revs up to which repos are deleted.
    deleted: BTreeMap<u32, u64>,
    seen: BTreeSet<u32>,
    hidden: BTreeSet<u32>,
}

impl Model {
    fn apply(&mut self, ops: &[Op], now: i64) {
        for op in ops {
            if let Op::Put { account, .. } | Op::Take { account, .. } = op {
                self.seen.insert(*account);
            }
        }
        let mut last = BTreeMap::new();
        for op in ops {
            let Op::Account { account, status, rev } = op else { continue };
            if self.seen.contains(account) {
                last.insert(*account, *status);
                if *status == AccountStatus::Deleted {
                    let deleted = self.deleted.entry(*account).or_default();
                    *deleted = (*deleted).max(*rev);
                }
            }
        }
        for (account, status) in &last {
            if *status == AccountStatus::Active {
                self.hidden.remove(account);
            } else {
                self.hidden.insert(*account);
            }
        }
        let is_deleted =
            |account: u32, rev: u64| self.deleted.get(&account).is_some_and(|until| rev <= *until);
        self.rows.retain(|(account, _), (rev, _)| !is_deleted(*account, *rev));
        self.tombstones.retain(|(account, _), rev| !is_deleted(*account, *rev));
        // Within a batch the newest rev of a key wins; of equal ones the first.
        let mut newest: BTreeMap<(u32, u32), (u64, bool)> = BTreeMap::new();
        for op in ops {
            let (permit, rev, is_put) = match op {
                Op::Put { account, key, rev } => ((*account, *key), *rev, true),
                Op::Take { account, key, rev } => ((*account, *key), *rev, false),
                Op::Account { .. } => continue,
            };
            if is_deleted(permit.0, rev) {
                continue;
            }
            if newest.get(&permit).is_none_or(|(known, _)| rev > *known) {
                newest.insert(permit, (rev, is_put));
            }
        }
        for (permit, (rev, is_put)) in newest {
            let row = self.rows.get(&permit).copied();
            let tombstone = self.tombstones.get(&permit).copied().unwrap_or(0);
            if row.is_some_and(|(known, _)| known >= rev) {
                continue;
            }
            if is_put {
                if row.is_some() || rev > tombstone {
                    self.rows.insert(permit, (rev, row.map_or(now, |(_, first)| first)));
                }
            } else {
                self.rows.remove(&permit);
                self.tombstones.insert(permit, tombstone.max(rev));
            }
        }
    }

    fn visible(&self) -> BTreeMap<String, (u64, i64)> {
        self.rows
            .iter()
            .filter(|((account, _), _)| !self.hidden.contains(account))
            .map(|((account, key), row)| (uri(*account, NOTE, &format!("k{key}")).to_string(), *row))
            .collect()
    }
}

async fn check(db: TestDb, batches: Vec<Vec<Op>>) {
    let mut model = Model::default();
    for (now, ops) in (1_i64..).zip(batches) {
        let mut batch = Batch { now: Timestamp(now), cursor: Some(cursor(now)), ..Batch::default() };
        for op in &ops {
            match op {
                Op::Put { account, key, rev } => {
                    let uri = uri(*account, NOTE, &format!("k{key}"));
                    let (record, target) = (format!(r#"{{"rev":{rev}}}"#), format!("at://{uri}/{rev}"));
                    batch.changes.push(put_with_refs(&uri, *rev, &record, &[&target]));
                }
                Op::Take { account, key, rev } => {
                    batch.changes.push(take(&uri(*account, NOTE, &format!("k{key}")), *rev));
                }
                Op::Account { account: n, status, rev: until } => {
                    batch.accounts.push(account(*n, *status, rev(*until)));
                }
            }
        }
        index::apply(&db, &batch).await.unwrap();
        model.apply(&ops, now);

        let collection = nsid(NOTE);
        let all = Query { limit: 1_000, ..Query::of(collection.clone()) };
        let rows = query::read(&db, &all, &US).await.unwrap().rows;
        let found: BTreeMap<_, _> = rows
            .iter()
            .map(|row| (row.uri(), (json(row)["rev"].as_u64().unwrap(), row.indexed_at.0)))
            .collect();
        assert_eq!(found, model.visible(), "after {ops:?}");
        assert_eq!(records::count(&db, &collection, None, &US).await.unwrap(), found.len() as u64);
        assert_eq!(wrong_counts(&db).await.unwrap(), [""; 0], "after {ops:?}");
        let targets: BTreeSet<_> = refs(&db).await.into_iter().map(|(target, _)| target).collect();
        let expected: BTreeSet<_> = model
            .rows
            .iter()
            .map(|((account, key), (rev, _))| {
                format!("at://{}/{rev}", uri(*account, NOTE, &format!("k{key}")))
            })
            .collect();
        assert_eq!(targets, expected, "after {ops:?}");
    }
}

fn any_batches() -> impl Strategy<Value = Vec<Vec<Op>>> {
    prop::collection::vec(prop::collection::vec(any_op(), 0..12), 1..8)
}

fn run(cases: u32, open: impl AsyncFn() -> TestDb) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(batches in any_batches())| {
        runtime.block_on(async { check(open().await, batches).await });
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
