//! Lists of many accounts: the records of these accounts in the order of time, and of no others.

use belvedere_protocol::atproto::Did;
use serde_json::json;

use super::field_indexes::{pages, unhurried};
use super::fixtures::*;

use crate::query::{Direction, Filter, Query, Sort};
use crate::store::index::AccountStatus;
use crate::store::query;
use crate::store::testing::TestDb;

const ACCOUNTS: u32 = 40;

/// Few accounts have most records, and several records have the same time.
async fn fill(db: &TestDb) {
    for at in 0..60_u32 {
        let accounts = [at * 7 % ACCOUNTS, at % 3, 5, if at < 20 { at } else { 1 }];
        let puts = accounts.iter().enumerate().map(|(n, account)| {
            let record = json!({ "even": at.is_multiple_of(2) }).to_string();
            put(&uri(*account, NOTE, &format!("r{at}x{n}")), 1, &record)
        });
        apply(db, i64::from(at / 4), puts.collect()).await;
    }
    apply(db, 3, vec![put(&uri(2, LIKE, "like"), 1, "{}")]).await;
    set_status(db, 9, AccountStatus::Deactivated).await;
}

on_both!(
    accounts_are_merged_in_the_order_of_time,
    a_list_of_many_accounts_has_records_behind_those_of_others,
    other_conditions_hold_too
);

async fn accounts_are_merged_in_the_order_of_time(db: TestDb) {
    fill(&db).await;
    let lists: [&[u32]; 6] =
        [&[], &[1], &[0, 5, 9, 14, 14, 999], &[9, 999], &[30, 31, 32, 33, 34, 35], &[2, 4, 6, 8, 10]];
    for accounts in lists {
        let dids: Vec<Did> = accounts.iter().map(|n| did(*n)).collect();
        for direction in [Direction::Desc, Direction::Asc] {
            let sort = Some(Sort::parse("indexed_at", direction).unwrap());
            let sort = if direction == Direction::Desc { None } else { sort };
            let all = Query { sort: sort.clone(), ..Query::of(nsid(NOTE)) };
            let (mut all, mut expected) = (Query { limit: 100, ..all }, Vec::new());
            loop {
                let page = query::read(&db, &all, &US).await.unwrap();
                let rows = page.rows.into_iter().filter(|row| dids.iter().any(|did| did.as_str() == row.did));
                expected.extend(rows.map(|row| row.rkey));
                if !advance(&mut all, page.next) {
                    break;
                }
            }
            for limit in [1, 3, 7, 100] {
                let query =
                    Query { dids: Some(dids.clone()), sort: sort.clone(), limit, ..Query::of(nsid(NOTE)) };
                assert_eq!(pages(&db, &query).await, expected, "{accounts:?} {direction:?} {limit}");
                assert_eq!(pages_from_end(&db, &query).await, expected, "from the end: {accounts:?} {limit}");
            }
        }
    }
}

/// Others' records are more than are looked through for a page, and lie between those of the list.
async fn a_list_of_many_accounts_has_records_behind_those_of_others(db: TestDb) {
    fill(&db).await;
    let others = (0..2_500).map(|n| put(&uri(77, NOTE, &format!("other{n}")), 1, "{}"));
    apply(&db, 7, others.collect()).await;
    let likes = (1_000..1_400).map(|n| put(&uri(n, LIKE, "like"), 1, "{}"));
    apply(&db, 7, likes.collect()).await;
    let few: Vec<Did> = [0, 1, 5, 14].map(did).to_vec();
    let many = few.iter().cloned().chain((1_000..1_400).map(did)).collect();
    for direction in [Direction::Desc, Direction::Asc] {
        let sort = Some(Sort::parse("indexed_at", direction).unwrap());
        for limit in [1, 7, 100] {
            let of = |dids: &Vec<Did>| Query {
                dids: Some(dids.clone()),
                sort: sort.clone(),
                limit,
                ..Query::of(nsid(NOTE))
            };
            let expected = pages(&db, &of(&few)).await;
            assert!(expected.len() > 100, "{expected:?}");
            assert_eq!(pages(&db, &of(&many)).await, expected, "{direction:?} {limit}");
            assert_eq!(pages_from_end(&db, &of(&many)).await, expected, "from the end: {limit}");
        }
    }
}

async fn other_conditions_hold_too(db: TestDb) {
    fill(&db).await;
    let of = |accounts: &[u32]| Query {
        dids: Some(accounts.iter().map(|n| did(*n)).collect()),
        limit: 3,
        ..Query::of(nsid(NOTE))
    };
    let even = Filter::from_json(&json!({ "field": "even", "value": true })).unwrap();
    let sort = Some(Sort::parse("uri", Direction::Asc).unwrap());
    let all = pages(&db, &of(&[5, 9, 14])).await;
    let filtered = Query { filter: Some(even), ..of(&[5, 9, 14]) };
    let is_even = |rkey: &String| rkey[1..].split('x').next().unwrap().parse::<u32>().unwrap() % 2 == 0;
    let expected: Vec<_> = all.iter().filter(|rkey| is_even(rkey)).cloned().collect();
    assert_eq!(pages(&db, &filtered).await, expected);
    assert!(expected.len() > 20);
    let counted = unhurried(async || query::count(&db, &filtered, &US).await).await;
    assert_eq!(counted, expected.len() as u64);
    let sorted = pages(&db, &Query { sort, ..of(&[5, 9, 14]) }).await;
    assert_eq!(sorted.len(), all.len());
    assert_eq!(query::count(&db, &of(&[5, 9, 14, 14]), &US).await.unwrap(), all.len() as u64);
    assert_eq!(query::count(&db, &of(&[]), &US).await.unwrap(), 0);
}
