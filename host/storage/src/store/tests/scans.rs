//! Reads are limited per tenant, and scans, which go through many records, separately, so that other tenants' reads always
//! find a connection.

use crate::store::testing::TestDb;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use super::field_indexes::{build_all, unhurried};
use super::fixtures::*;

use crate::query::{
    Backlinks, Direction, Filter, HasLabel, Hidden, Links, Narrow, Query, Related, Relation, Search, Sort,
};
use crate::store::query;
use crate::store::records::{self, PAGE_BYTES, Room, backlinks, linked_accounts, links, related};
use crate::store::search;

use crate::store::{Db, StoreError};
use belvedere_base::clock::Timestamp;
use belvedere_web::fair_share::{FairPool, Full, Permit, Tenant};

const TARGET: &str = "at://did:plc:target/com.example.note/1";

/// Opens the same database with enough connections for several tenants.
async fn wide(url: &str) -> Db {
    let db = Db::open(url, 32).await.unwrap();
    let bounds = db.scans().bounds();
    assert!(bounds.per_tenant < bounds.permits, "{bounds:?}");
    db
}

/// All permits that a tenant may have.
async fn all_permits(pool: &FairPool, tenant: &Tenant) -> Vec<Permit> {
    let mut held = Vec::new();
    for _ in 0..pool.bounds().per_tenant {
        held.push(pool.enter(tenant).await.unwrap());
    }
    held
}

async fn store(db: &Db) {
    for n in 0..30 {
        let record = json!({"n": n, "text": format!("text {n}")}).to_string();
        apply(db, n, vec![put_with_refs(&uri(1, NOTE, &format!("r{n}")), 1, &record, &[TARGET])]).await;
    }
}

fn notes() -> Query {
    Query::of(nsid(NOTE))
}

fn filtered(filter: serde_json::Value) -> Query {
    Query { filter: Some(Filter::from_json(&filter).unwrap()), ..notes() }
}

fn sorted(key: &str) -> Query {
    Query { sort: Some(Sort::parse(key, Direction::Asc).unwrap()), ..notes() }
}

fn like() -> Query {
    filtered(json!({"field": "text", "op": "LIKE", "value": "%1%"}))
}

/// Runs one read of each kind that scans.
async fn scan_all(db: &Db, tenant: &Tenant) {
    query::read(db, &like(), tenant).await.unwrap();
    query::read(db, &sorted("n"), tenant).await.unwrap();
    records::count(db, &nsid(NOTE), None, tenant).await.unwrap();
    records::count(db, &nsid(NOTE), Some(&did(1)), tenant).await.unwrap();
    let search = Search::parse(nsid(NOTE), &["text"], "text".to_owned(), None, None).unwrap();
    search::read(db, &search, tenant).await.unwrap();
    backlinks::read(db, &Backlinks { did: Some(did(1)), ..links() }, tenant).await.unwrap();
}

/// Runs one read of each kind that does not scan.
async fn read_all(db: &Db, tenant: &Tenant) {
    for query in [notes(), Query { did: Some(did(1)), ..notes() }, sorted("indexed_at")] {
        assert!(!query::read(db, &query, tenant).await.unwrap().rows.is_empty());
    }
    let one = uri(1, NOTE, "r1");
    assert!(records::get(db, &one).await.unwrap().is_some());
    assert_eq!(records::get_many_full(db, &[one], Room::of(PAGE_BYTES)).await.unwrap().rows.len(), 1);
    assert!(!backlinks::read(db, &links(), tenant).await.unwrap().rows.is_empty());
    assert!(records::count(db, &nsid(NOTE), None, tenant).await.unwrap() > 0);
}

fn links() -> Backlinks {
    Backlinks {
        links: Links { collection: nsid(NOTE), path: None },
        target: TARGET.to_owned(),
        did: None,
        limit: 20,
        after: None,
        uris_only: false,
    }
}

on_both!(
    a_scanning_tenant_does_not_block_others,
    a_reading_tenant_leaves_connections_to_others,
    the_number_of_waiting_scans_is_limited,
    a_read_by_an_index_is_not_a_scan,
    reads_that_hide_few_records_are_no_scans,
    a_look_takes_a_permit
);

async fn a_scanning_tenant_does_not_block_others(db: TestDb) {
    let db = wide(&db.url).await;
    store(&db).await;
    let (greedy, other) = (Tenant::client("greedy"), Tenant::client("other"));
    let held = all_permits(db.scans(), &greedy).await;
    for n in 0..6 {
        let waits = async {
            match n {
                0 => drop(query::read(&db, &like(), &greedy).await.unwrap()),
                1 => drop(query::read(&db, &sorted("n"), &greedy).await.unwrap()),
                2 => drop(records::count(&db, &nsid(NOTE), Some(&did(1)), &greedy).await.unwrap()),
                3 => {
                    let search = Search::parse(nsid(NOTE), &["text"], "text".to_owned(), None, None).unwrap();
                    drop(search::read(&db, &search, &greedy).await.unwrap());
                }
                4 => {
                    let of_one = Backlinks { did: Some(did(1)), ..links() };
                    drop(backlinks::read(&db, &of_one, &greedy).await.unwrap());
                }
                _ => drop(query::read(&db, &Query { did: Some(did(1)), ..like() }, &greedy).await.unwrap()),
            }
        };
        tokio::select! {
            biased;
            () = waits => panic!("{n} was read without a permit"),
            () = async { scan_all(&db, &other).await; read_all(&db, &greedy).await; } => {}
        }
    }
    let like = like();
    let mut waits = pin!(query::read(&db, &like, &greedy));
    tokio::select! {
        biased;
        _ = &mut waits => panic!("it was read without a permit"),
        () = scan_all(&db, &other) => {}
    }
    drop(held);
    assert!(!waits.await.unwrap().rows.is_empty());
    db.close().await;
}

async fn a_reading_tenant_leaves_connections_to_others(db: TestDb) {
    let db = wide(&db.url).await;
    store(&db).await;
    let (greedy, other) = (Tenant::client("greedy"), Tenant::client("other"));
    let bounds = db.reads().bounds();
    assert!(bounds.per_tenant < bounds.permits, "{bounds:?}");
    let held = all_permits(db.reads(), &greedy).await;
    for query in [notes(), Query { did: Some(did(1)), ..notes() }, sorted("indexed_at")] {
        let mut waits = pin!(query::read(&db, &query, &greedy));
        tokio::select! {
            biased;
            _ = &mut waits => panic!("it was read without a permit"),
            () = async { read_all(&db, &other).await; scan_all(&db, &other).await; } => {}
        }
    }
    let links = links();
    let mut waits = pin!(backlinks::read(&db, &links, &greedy));
    tokio::select! {
        biased;
        _ = &mut waits => panic!("it was read without a permit"),
        () = read_all(&db, &other) => {}
    }
    let note = nsid(NOTE);
    let mut counts = pin!(records::count(&db, &note, None, &greedy));
    tokio::select! {
        biased;
        _ = &mut counts => panic!("it was counted without a permit"),
        () = read_all(&db, &other) => {}
    }
    drop(held);
    assert!(!waits.await.unwrap().rows.is_empty() && counts.await.unwrap() > 0);
    db.close().await;
}

async fn the_number_of_waiting_scans_is_limited(db: TestDb) {
    let db = wide(&db.url).await;
    store(&db).await;
    let tenant = Tenant::client("greedy");
    let bounds = db.scans().bounds();
    let held = all_permits(db.scans(), &tenant).await;
    let waiting = join_all((0..bounds.waiting_per_tenant).map(|_| db.scan_permit(&tenant)));
    let refused = async {
        let read = query::read(&db, &like(), &tenant).await;
        assert!(matches!(read, Err(StoreError::Busy(Full::Tenant))), "{read:?}");
    };
    tokio::select! {
        biased;
        () = async { waiting.await; pending::<()>().await } => unreachable!("the permits are held"),
        () = refused => {}
    }
    drop(held);
    db.close().await;
}

async fn a_read_by_an_index_is_not_a_scan(db: TestDb) {
    let db = wide(&db.url).await;
    store(&db).await;
    let queries = [
        filtered(json!({"field": "n", "value": 7})),
        filtered(json!({"field": "n", "op": ">", "value": 7})),
        sorted("n"),
    ];
    for query in &queries {
        query::read(&db, query, &US).await.unwrap();
    }
    build_all(&db).await;
    let _held: Vec<_> = join_all((0..db.scans().bounds().per_tenant).map(|_| db.scan_permit(&US))).await;
    for query in &queries {
        assert!(!query::read(&db, query, &US).await.unwrap().rows.is_empty(), "{query:?}");
    }
}

/// Reads that leave records with a label out: a list, a timeline, and the records of an account.
async fn read_hiding(db: &Db, tenant: &Tenant, which: u32) -> Result<Vec<String>, StoreError> {
    let labels = vec![HasLabel::new("bad".to_owned(), Timestamp(100)).unwrap()];
    let hidden = Hidden { labels, accounts: Vec::new() };
    let list = Query { narrow: Narrow { hidden: hidden.clone(), ..Narrow::default() }, ..notes() };
    let rows = match which {
        0 => query::read(db, &list, tenant).await?.rows,
        1 => query::read(db, &Query { dids: Some(vec![did(1), did(2)]), ..list }, tenant).await?.rows,
        _ => {
            let relation = Relation::Author;
            let related =
                Related { collection: nsid(NOTE), relation, direction: Direction::Desc, limit: 20, hidden };
            let targets = [did(1).to_string(), did(2).to_string()];
            let page = related::read(db, &related, &targets, Room::of(PAGE_BYTES), tenant).await?;
            page.rows.into_iter().map(|found| found.row).collect()
        }
    };
    Ok(rows.into_iter().map(|row| row.rkey).collect())
}

/// A read that hides what an author has labelled is a read by an index, until it has passed over many of them.
async fn reads_that_hide_few_records_are_no_scans(db: TestDb) {
    let db = wide(&db.url).await;
    // The label is the last one that is looked at.
    let others = r#"{"val":"other"},"#.repeat(9);
    let own = &format!(r#"{{"labels":{{"values":[{others}{{"val":"bad"}}]}}}}"#);
    apply(&db, 1, vec![put(&uri(2, NOTE, "shown"), 1, "{}"), put(&uri(1, NOTE, "own"), 1, own)]).await;
    let held = all_permits(db.scans(), &US).await;
    for which in 0..3 {
        // On a busy machine a read may take longer, and then waits for the scan.
        let mut found = None;
        for _ in 0..20 {
            let read = timeout(Duration::from_secs(1), read_hiding(&db, &US, which)).await;
            if let Ok(read) = read {
                found = Some(read.unwrap());
                break;
            }
        }
        assert_eq!(found.unwrap(), ["shown"], "{which}");
    }
    for n in 0..20 {
        let many = (0..2_500).map(|m| put(&uri(1, NOTE, &format!("own{n}x{m}")), 1, own));
        apply(&db, 2 + n, many.collect()).await;
    }
    for which in 0..3 {
        let mut waits = pin!(read_hiding(&db, &US, which));
        let stopped = timeout(Duration::from_millis(400), &mut waits).await;
        assert!(stopped.is_err(), "{which} passed over all as a read by an index");
    }
    drop(held);
    for which in 0..3 {
        let read = unhurried(async || read_hiding(&db, &US, which).await).await;
        assert_eq!(read, ["shown"], "{which}");
    }
    db.close().await;
}

/// The look that decides whether a read is a scan is a read itself.
async fn a_look_takes_a_permit(db: TestDb) {
    let db = wide(&db.url).await;
    store(&db).await;
    let (greedy, other) = (Tenant::client("greedy"), Tenant::client("other"));
    let at = Links { collection: nsid(NOTE), path: Some("subject.uri".to_owned()) };
    let targets = [TARGET.to_owned()];
    let account = did(1);
    let of = async |tenant: &Tenant, which| match which {
        0 => drop(backlinks::read(&db, &Backlinks { links: at.clone(), ..links() }, tenant).await.unwrap()),
        1 => drop(links::of_account(&db, &account, &at, &targets, tenant).await.unwrap()),
        _ => drop(linked_accounts::linking(&db, &account, &at, 10, tenant).await.unwrap()),
    };
    let held = all_permits(db.reads(), &greedy).await;
    for which in 0..3 {
        tokio::select! {
            biased;
            () = of(&greedy, which) => panic!("{which} was read without a permit"),
            () = of(&other, which) => {}
        }
    }
    drop(held);
    for which in 0..3 {
        of(&greedy, which).await;
    }
    db.close().await;
}
