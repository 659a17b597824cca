//! Shards that are split, while other hosts read and write them. The tests are skipped, and say so, where `BELVEDERE_TEST_CITUS_URL`
//! names no cluster.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belvedere_standins::citus::Cluster;
use serde_json::json;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::field_indexes::build_all;
use super::fixtures::*;
use super::shards::{open, raw};
use crate::query::{Filter, Query};
use crate::store::fields::build;
use crate::store::index::{self, AccountStatus, Batch, Change};
use crate::store::records::{RecordRow, collection_counts};
use crate::store::shards::{self, ShardsError, Split};
use crate::store::testing::{both, wrong_counts};
use crate::store::{Db, StoreError, intern, query};
use belvedere_base::clock::Timestamp;

const LARGE: &str = "com.example.large";
const TARGET: &str = "at://did:plc:target/com.example.note/1";

/// A database in shards, with one record of [`LARGE`].
async fn distribute(cluster: &Cluster) {
    let db = open(cluster).await;
    apply(&db, 1, vec![put(&uri(1, LARGE, "first"), 1, r#"{"n":1}"#)]).await;
    shards::distribute(&db).await.unwrap();
    db.close().await;
}

/// The number of the shard of a collection.
async fn shard_of(db: &Db, collection: &str) -> u8 {
    let all = shards::shards(db).await.unwrap();
    let has = |shard: &&shards::Shard| shard.collections.iter().any(|(nsid, _)| nsid == collection);
    all.iter().find(has).unwrap_or_else(|| panic!("{collection} is in no shard: {all:?}")).number
}

/// A new collection, in the shard that [`LARGE`] was in at first.
async fn neighbour(db: &Db, of: u8, from: u32) -> String {
    for n in from.. {
        let name = format!("com.example.c{n}");
        apply(db, 1, vec![put(&uri(1, &name, "first"), 1, r#"{"n":1}"#)]).await;
        if shard_of(db, &name).await == of {
            return name;
        }
    }
    unreachable!("one of sixteen is")
}

async fn fill(db: &Db, collection: &str, records: u32) {
    let changes = (0..records).map(|k| {
        let record = format!(r#"{{"n":{}}}"#, k % 5);
        put_with_refs(&uri(1 + k % 3, collection, &format!("k{k}")), 2, &record, &[TARGET])
    });
    apply(db, 2, changes.collect()).await;
    apply(db, 3, vec![take(&uri(1, collection, "k0"), 3)]).await;
}

fn filtered(collection: &str) -> Query {
    let filter = Filter::from_json(&json!({ "field": "n", "value": 3 })).unwrap();
    Query { filter: Some(filter), limit: 1_000, ..Query::of(nsid(collection)) }
}

async fn matches(db: &Db, collection: &str) -> Vec<String> {
    let page = query::read(db, &filtered(collection), &US).await.unwrap();
    page.rows.iter().map(RecordRow::uri).collect()
}

/// The lists, filters, counts and references of some collections.
async fn contents(
    db: &Db,
    collections: &[&str],
) -> (Vec<Vec<String>>, Vec<(String, u64)>, Vec<(String, String)>) {
    let mut lists = Vec::new();
    for collection in collections {
        lists.push(list(db, collection).await);
        lists.push(matches(db, collection).await);
    }
    (lists, counts(db).await, refs(db).await)
}

async fn try_apply(db: &Db, changes: Vec<Change>) -> Result<(), StoreError> {
    let batch = Batch { changes, now: Timestamp(9), ..Batch::default() };
    index::apply(db, &batch).await.map(drop)
}

#[tokio::test]
async fn a_shard_is_split_between_its_largest_collection_and_the_others() {
    let Some(cluster) = Cluster::create("belvedere_test_splits").await else { return };
    distribute(&cluster).await;
    let [db, other] = [open(&cluster).await, open(&cluster).await];
    let number = shard_of(&db, LARGE).await;
    assert!(matches!(shards::plan_split(&db, number).await, Err(ShardsError::OneCollection(_))));
    let small = neighbour(&db, number, 0).await;
    let both_of = [LARGE, small.as_str()];
    fill(&db, LARGE, 60).await;
    fill(&db, &small, 40).await;
    set_status(&db, 3, AccountStatus::Suspended).await;
    for collection in both_of {
        assert!(query::count(&db, &filtered(collection), &US).await.unwrap() > 0);
    }
    build_all(&db).await;
    for db in [&db, &other] {
        assert_eq!(db.look_at_nodes().await.len(), 2);
    }
    let expected = contents(&db, &both_of).await;
    assert_eq!(contents(&other, &both_of).await, expected);

    let planned = shards::plan_split(&db, number).await.unwrap();
    let split = shards::split(&db, number).await.unwrap();
    assert_eq!(split, planned);
    assert_eq!(split, Split { largest: LARGE.into(), own: 16, rest: 17, moved: vec![(small.clone(), 40)] });
    assert!(matches!(shards::split(&db, number).await, Err(ShardsError::NoShard(_))));
    assert!(matches!(shards::split(&db, split.own).await, Err(ShardsError::OneCollection(16))));
    assert_eq!(contents(&db, &both_of).await, expected);
    assert_eq!([shard_of(&db, LARGE).await, shard_of(&db, &small).await], [16, 17]);
    assert_eq!(shards::shards(&db).await.unwrap().len(), 17);

    // The other host does not know: nothing is answered, and nothing is lost.
    for collection in both_of {
        let page = query::read(&other, &Query::of(nsid(collection)), &US).await;
        assert!(matches!(page, Err(StoreError::Unavailable(_))), "{page:?}");
        let written = try_apply(&other, vec![put(&uri(1, collection, "late"), 9, "{}")]).await;
        assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
        let taken = try_apply(&other, vec![take(&uri(1, collection, "k3"), 9)]).await;
        assert!(matches!(taken, Err(StoreError::Unavailable(_))), "{taken:?}");
    }
    other.look_at_nodes().await;
    assert_eq!(contents(&other, &both_of).await, expected);
    db.look_at_nodes().await;
    assert_eq!(contents(&db, &both_of).await, expected, "from the nodes");
    for node in shards::nodes(&db).await.unwrap().into_iter().filter(|node| node.takes_shards) {
        shards::move_to(&db, split.rest, &node.name).await.unwrap();
        assert_eq!(contents(&db, &both_of).await, expected);
    }
    db.look_at_nodes().await;
    assert_eq!(contents(&db, &both_of).await, expected);

    // A collection that is new goes to the others, which can be split again.
    let third = neighbour(&db, split.rest, 1_000).await;
    fill(&other, &third, 20).await;
    db.look_at_nodes().await;
    let again = shards::split(&db, split.rest).await.unwrap();
    assert_eq!((again.largest.as_str(), again.own, again.rest), (small.as_str(), 18, 19));
    let all_of = [LARGE, small.as_str(), third.as_str()];
    for db in [&db, &other] {
        db.look_at_nodes().await;
    }
    let [plain, _] = both().await;
    for collection in all_of {
        fill(
            &plain,
            collection,
            if collection == LARGE {
                60
            } else if collection == third {
                20
            } else {
                40
            },
        )
        .await;
        apply(&plain, 4, vec![put(&uri(1, collection, "first"), 1, r#"{"n":1}"#)]).await;
    }
    for db in [&db, &other, &plain] {
        apply(db, 20, vec![take(&uri(1, LARGE, "k3"), 20), put(&uri(2, &small, "new"), 20, r#"{"n":3}"#)])
            .await;
        set_status(db, 2, AccountStatus::Deleted).await;
        set_status(db, 3, AccountStatus::Active).await;
    }
    for collection in all_of {
        let sorted = async |db: &Db| {
            let mut uris = list(db, collection).await;
            uris.sort();
            uris
        };
        assert_eq!(sorted(&other).await, sorted(&plain).await);
    }
    assert_eq!(wrong_counts(&db).await.unwrap(), Vec::<String>::new());
    let of = async |db: &Db| {
        let counts = collection_counts(db).await.unwrap().into_iter();
        counts.filter(|of| all_of.contains(&of.collection.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(of(&db).await, of(&plain).await);
    for collection in all_of {
        let sql = format!("SELECT rkey FROM records WHERE collection = '{collection}' ORDER BY uri");
        assert_eq!(raw(&db, &sql).await.unwrap(), raw(&plain, &sql).await.unwrap());
        let sql = format!(
            "SELECT source_uri FROM record_refs WHERE collection = '{collection}' ORDER BY source_uri"
        );
        assert_eq!(raw(&db, &sql).await.unwrap(), raw(&plain, &sql).await.unwrap());
    }
    plain.close().await;
    for db in [db, other] {
        db.close().await;
    }
    cluster.remove().await;
}

/// While shards are split a read has all that was there or fails, and a batch that fails is tried again.
#[tokio::test]
async fn a_split_loses_nothing_and_hides_nothing() {
    let Some(cluster) = Cluster::create("belvedere_test_split_writes").await else { return };
    distribute(&cluster).await;
    let [db, other] = [open(&cluster).await, open(&cluster).await];
    let number = shard_of(&db, LARGE).await;
    let small = neighbour(&db, number, 0).await;
    fill(&db, LARGE, 60).await;
    fill(&db, &small, 40).await;
    let third = neighbour(&db, number, 1_000).await;
    let all_of = [LARGE, small.as_str(), third.as_str()];
    other.look_at_nodes().await;
    let is_done = AtomicBool::new(false);
    let writes = async {
        let mut written = 0;
        while !is_done.load(Ordering::Relaxed) || written < 50 {
            let changes = all_of.map(|collection| {
                put(&uri(1, collection, &format!("w{written}")), 50 + written, r#"{"n":3}"#)
            });
            match try_apply(&other, changes.into()).await {
                Ok(()) => written += 1,
                Err(StoreError::Unavailable(_)) => drop(other.look_at_nodes().await),
                Err(error) => panic!("{error:?}"),
            }
        }
        written
    };
    let reader = open(&cluster).await;
    reader.look_at_nodes().await;
    let reads = async {
        let [mut read, mut failed] = [0, 0];
        let mut least = [0; 3];
        while !is_done.load(Ordering::Relaxed) || read < 50 {
            for (collection, least) in all_of.iter().zip(&mut least) {
                let query = Query { limit: 1_000, ..Query::of(nsid(collection)) };
                match query::read(&reader, &query, &US).await {
                    Ok(page) => {
                        assert!(page.rows.len() >= *least, "{collection}: {} of {least}", page.rows.len());
                        *least = page.rows.len();
                        read += 1;
                    }
                    Err(StoreError::Unavailable(_)) => {
                        failed += 1;
                        reader.look_at_nodes().await;
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        failed
    };
    let splits = async {
        let first = shards::split(&db, number).await.unwrap();
        let second = shards::split(&db, first.rest).await.unwrap();
        is_done.store(true, Ordering::Relaxed);
        second.rest
    };
    let (written, _, rest) = tokio::join!(writes, reads, splits);
    assert_eq!(rest, 19);
    for collection in all_of {
        let own = list(&db, collection).await.into_iter().filter(|uri| uri.contains("/w")).count();
        assert_eq!(own as u64, written, "{collection}");
    }
    assert_eq!(wrong_counts(&db).await.unwrap(), Vec::<String>::new());
    for db in [db, other, reader] {
        db.close().await;
    }
    cluster.remove().await;
}

/// A write that has not ended on the node holds a split up until it gives up, and is neither lost nor left behind. A read there does
/// that too, and so does an index that is built.
#[tokio::test]
async fn a_split_waits_for_what_has_not_ended() {
    let Some(cluster) = Cluster::create("belvedere_test_split_waits").await else { return };
    distribute(&cluster).await;
    let db = open(&cluster).await;
    let number = shard_of(&db, LARGE).await;
    let small = neighbour(&db, number, 0).await;
    fill(&db, LARGE, 20).await;
    fill(&db, &small, 10).await;
    let expected = contents(&db, &[LARGE, &small]).await;

    let building = build::lock(&db).await.unwrap().unwrap();
    assert!(matches!(shards::split(&db, number).await, Err(ShardsError::BuildingIndex(_))));
    building.release().await.unwrap();

    let all = shards::shards(&db).await.unwrap();
    let node = &all.iter().find(|shard| shard.number == number).unwrap().node;
    let port = node.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut on_node = cluster.coordinator.clone().port(port).connect().await.unwrap();
    let id = intern::collection(&db, &nsid(&small)).await.unwrap().unwrap().id;
    let table =
        format!("SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'records_{number:02}'::regclass");
    let shard: i64 = sqlx::query_scalar(AssertSqlSafe(table)).fetch_one(&mut on_node).await.unwrap();
    let read = format!("BEGIN; SELECT count(*) FROM records_{number:02}_{shard}");
    sqlx::raw_sql(AssertSqlSafe(read)).execute(&mut on_node).await.unwrap();
    let split = tokio::time::timeout(Duration::from_mins(1), shards::split(&db, number)).await;
    assert!(split.expect("its time limit is that of the node too").is_err());
    assert_eq!(contents(&db, &[LARGE, &small]).await, expected, "nothing has changed");
    for sql in [
        "COMMIT",
        "SET citus.enable_manual_changes_to_shards = on",
        "BEGIN",
        &format!(
            "UPDATE records_{number:02}_{shard} SET rkey = 'late' WHERE collection_id = {id} AND rkey = 'k1'"
        ),
        "PREPARE TRANSACTION 'unresolved'",
    ] {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut on_node).await.unwrap();
    }
    let split = shards::split(&db, number).await;
    assert!(matches!(split, Err(ShardsError::Writing { .. })), "{split:?}");
    assert_eq!(contents(&db, &[LARGE, &small]).await, expected, "nothing has changed");
    sqlx::raw_sql("COMMIT PREPARED 'unresolved'").execute(&mut on_node).await.unwrap();
    on_node.close().await.unwrap();
    let expected = contents(&db, &[LARGE, &small]).await;
    assert!(expected.0[2].iter().any(|uri| uri.ends_with("/late")));
    let split = shards::split(&db, number).await.unwrap();
    assert_eq!(contents(&db, &[LARGE, &small]).await, expected);
    assert_eq!(split.moved, [(small, 10)]);
    db.close().await;
    cluster.remove().await;
}

/// On one PostgreSQL too: statements on a shard that is gone may be repeated, others on tables that do not exist not.
#[tokio::test]
async fn a_shard_that_is_gone_is_told_from_a_table_that_never_was() {
    let [_, db] = both().await;
    let Db::Postgres(postgres) = &*db else { panic!("{db:?}") };
    let ask = async |table: &str| {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        StoreError::from(sqlx::query_scalar::<_, i64>(sql).fetch_one(&postgres.pool).await.unwrap_err())
    };
    for table in ["records_99", "public.record_refs_42", "tombstones_16_102009", "link_counts_07"] {
        let error = ask(table).await;
        assert!(matches!(error, StoreError::Unavailable(_)), "{table}: {error:?}");
        let answer = belvedere_web::http::Error::from(error);
        assert!(answer.status == 503 && answer.error.contains("split a moment ago"), "{answer:?}");
    }
    for table in ["records_x9", "records_100", "record_counts_99", "nothing"] {
        let error = ask(table).await;
        assert!(matches!(error, StoreError::Database(_)), "{table}: {error:?}");
    }
}

/// The number of a collection follows the splits of its shard, however often it was split.
#[tokio::test]
async fn a_collection_is_found_behind_splits() {
    let [_, db] = both().await;
    execute(&db, "CREATE TABLE partitioned_collections (collection_id BIGINT NOT NULL) PARTITION BY HASH (collection_id)")
        .await;
    let before = numbers(&db).await;
    for sql in shards::partition_of() {
        execute(&db, &sql).await;
    }
    assert_eq!(numbers(&db).await, before, "without a split");
    let of = |number: i32| (1..).zip(&before).filter(move |(_, of)| **of == number).map(|(id, _)| id);
    let of_third: Vec<usize> = of(3).collect();
    let [first, second, third] = [of_third[0], of_third[1], of_third[2]];
    execute(&db, &format!("INSERT INTO shard_splits VALUES (3, {first}, 16, 17), (17, {second}, 18, 19)"))
        .await;
    let after = numbers(&db).await;
    assert_eq!([first, second, third].map(|id| after[id - 1]), [16, 18, 19]);
    assert!(of(4).all(|id| after[id - 1] == 4));
}

/// The numbers of the shards of two hundred ids.
async fn numbers(db: &Db) -> Vec<i32> {
    let Db::Postgres(db) = db else { panic!("{db:?}") };
    let sql = "SELECT partition_of(id) FROM generate_series(1::bigint, 200) id ORDER BY id";
    sqlx::query_scalar(sql).fetch_all(&db.pool).await.unwrap()
}
