//! Links of many targets: exact numbers, whatever changes, and the links of one account.

use std::time::Duration;

use tokio::time::timeout;

use super::fixtures::*;
use crate::store::testing::{TestDb, drop_counting_triggers, wrong_counts};

use belvedere_protocol::atproto::record::Ref;
use bytes::Bytes;

use crate::query::{Backlinks, Keyset, Links};
use crate::store::Db;
use crate::store::index::unread::{self, Unread};
use crate::store::index::{AccountStatus, Change, Reread};
use crate::store::records::{self, FullRecordRow, backlinks, links};
use belvedere_base::clock::Timestamp;

const TARGET: &str = "at://did:plc:target/com.example.note/1";
const OTHER: &str = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa";

/// Enough for the target to be counted, whichever records are looked at.
const MANY: u32 = 600;

fn of(path: Option<&str>) -> Links {
    Links { collection: nsid(LIKE), path: path.map(str::to_owned) }
}

/// A record with links to the target at these paths.
fn link(n: u32, rkey: &str, version: u64, paths: &str) -> Change {
    let mut change = put_with_refs(&uri(n, LIKE, rkey), version, "{}", &[TARGET]);
    let refs = &mut change.record.as_mut().unwrap().refs;
    paths.clone_into(&mut refs[0].paths);
    change
}

async fn count(db: &Db, path: Option<&str>) -> u64 {
    let targets = [TARGET.to_owned(), "at://none".to_owned()];
    let counts = links::count(db, &of(path), &targets, &US).await.unwrap();
    assert_eq!((counts.len(), counts[1]), (2, 0));
    counts[0]
}

/// The number that the database finds without its counts.
async fn truth(db: &Db, path: &str) -> u64 {
    let sql = "SELECT count(*) FROM record_refs f JOIN records r ON r.id = f.record_id \
               JOIN dids d ON d.id = r.did_id AND d.status = 0 \
               WHERE f.target = $1 AND ($2 = '' OR ' ' || f.paths || ' ' LIKE '% ' || $2 || ' %')";
    let count: i64 = match db {
        Db::Sqlite(db) => sqlx::query_scalar(sql).bind(TARGET).bind(path).fetch_one(&db.reader).await,
        Db::Postgres(db) => sqlx::query_scalar(sql).bind(TARGET).bind(path).fetch_one(&db.pool).await,
    }
    .unwrap();
    count as u64
}

async fn check(db: &Db, what: &str) {
    assert_eq!(wrong_counts(db).await.unwrap(), [""; 0], "{what}");
    for path in ["", "subject.uri", "b", "c"] {
        let wanted = truth(db, path).await;
        let counted = count(db, Some(path).filter(|path| !path.is_empty())).await;
        assert_eq!(counted, wanted, "{what}: {path:?}");
    }
}

async fn is_counted(db: &Db) -> bool {
    super::fixtures::count(db, "link_counts").await > 0
}

on_both!(
    counts_are_exact_whatever_changes,
    counts_are_exact_without_triggers,
    a_target_is_counted_when_it_is_asked_for,
    the_links_of_one_account_are_found,
    backlinks_are_of_one_path,
    old_references_are_read_again,
    references_of_older_hosts_are_read_again,
    no_count_begins_while_a_collection_is_read_again
);

async fn counts_are_exact_whatever_changes(db: TestDb) {
    let some = |from: u32, to: u32, version: u64, paths: &str| -> Vec<Change> {
        (from..to).map(|n| link(n % 7, &format!("r{n}"), version, paths)).collect()
    };
    apply(&db, 1, some(0, 20, 1, "subject.uri")).await;
    check(&db, "a few").await;
    set_status(&db, 1, AccountStatus::Deactivated).await;
    check(&db, "a few, some hidden").await;
    assert!(!is_counted(&db).await);
    apply(&db, 2, some(20, MANY, 1, "b subject.uri")).await;
    assert!(is_counted(&db).await);
    check(&db, "many").await;
    apply(&db, 3, some(MANY, MANY + 30, 1, "c")).await;
    apply(&db, 4, some(MANY + 30, MANY + 40, 1, "")).await;
    check(&db, "a new path, and none").await;
    apply(&db, 5, some(0, 50, 2, "b c")).await;
    check(&db, "changed").await;
    apply(&db, 6, (50..90).map(|n| take(&uri(n % 7, LIKE, &format!("r{n}")), 2)).collect()).await;
    check(&db, "deleted").await;
    set_status(&db, 1, AccountStatus::Active).await;
    set_status(&db, 2, AccountStatus::TakenDown).await;
    check(&db, "shown and hidden").await;
    records::delete(&db, &uri(3, LIKE, "r101")).await.unwrap();
    records::delete(&db, &uri(2, LIKE, "r100")).await.unwrap();
    check(&db, "deleted by an admin").await;
    set_status(&db, 4, AccountStatus::Deleted).await;
    check(&db, "an account deleted").await;
    records::delete_collection(&db, &nsid(LIKE)).await.end.unwrap();
    check(&db, "a collection deleted").await;
    assert_eq!(count(&db, None).await, 0);
}

async fn counts_are_exact_without_triggers(db: TestDb) {
    drop_counting_triggers(&db).await.unwrap();
    counts_are_exact_whatever_changes(db).await;
}

async fn a_target_is_counted_when_it_is_asked_for(db: TestDb) {
    apply(&db, 1, (0..MANY).map(|n| link(n % 7, &format!("r{n}"), 1, "subject.uri")).collect()).await;
    change(&db, |of| format!("DELETE FROM {}", of.link_counts)).await;
    assert_eq!(count(&db, Some("c")).await, 0);
    assert!(is_counted(&db).await);
    check(&db, "counted again").await;
    change(&db, |of| format!("DELETE FROM {}", of.link_counts)).await;
    execute(&db, "INSERT INTO unread_refs (collection_id, after_indexed_at, after_id) SELECT id, 0, 0 FROM collections").await;
    check(&db, "not all are read").await;
    assert!(!is_counted(&db).await);
}

async fn the_links_of_one_account_are_found(db: TestDb) {
    let targets = [OTHER.to_owned(), TARGET.to_owned(), "at://none".to_owned()];
    let find = async |n: u32, path: Option<&str>| {
        let found = links::of_account(&db, &did(n), &of(path), &targets, &US).await.unwrap();
        assert_eq!((found.len(), &found[0], &found[2]), (3, &None, &None));
        found[1].clone()
    };
    for total in [10, MANY] {
        let changes = (0..total).map(|n| link(n % 7, &format!("r{n:04}"), u64::from(total), "subject.uri"));
        apply(&db, i64::from(total), changes.collect()).await;
        assert_eq!(is_counted(&db).await, total == MANY);
        let newest = (0..total).rev().find(|n| n % 7 == 3).unwrap();
        assert_eq!(find(3, None).await, Some(format!("r{newest:04}")));
        assert_eq!(find(3, Some("subject.uri")).await, Some(format!("r{newest:04}")));
        assert_eq!(find(3, Some("b")).await, None);
        assert_eq!(find(8, None).await, None);
    }
    set_status(&db, 3, AccountStatus::Suspended).await;
    assert_eq!(find(3, None).await, None);
}

async fn backlinks_are_of_one_path(db: TestDb) {
    let changes = vec![
        link(1, "root", 1, "reply.root.uri"),
        link(1, "both", 1, "reply.parent.uri reply.root.uri"),
        link(1, "like", 1, "reply.parent.uri.x"),
        link(1, "strange", 1, ""),
    ];
    apply(&db, 1, changes).await;
    let read = async |path: Option<&str>| {
        let wanted = Backlinks {
            links: of(path),
            target: TARGET.to_owned(),
            did: None,
            limit: 10,
            after: None,
            uris_only: false,
        };
        let page = backlinks::read(&db, &wanted, &US).await.unwrap();
        let mut rkeys: Vec<String> = page.rows.into_iter().map(|row| row.rkey).collect();
        rkeys.sort();
        rkeys
    };
    assert_eq!(read(Some("reply.root.uri")).await, ["both", "root"]);
    assert_eq!(read(Some("reply.parent.uri")).await, ["both"]);
    assert_eq!(read(Some("uri")).await, [""; 0]);
    assert_eq!(read(None).await, ["both", "like", "root", "strange"]);
}

/// Counts the links of the target while another transaction writes.
async fn count_beside_a_writer(db: &TestDb) -> Option<u64> {
    const SHARED_LOCK: &str = "SELECT pg_advisory_xact_lock_shared(x'7265636f726473'::bigint)";
    let counted = timeout(Duration::from_secs(2), count(db, None));
    let counted = match &**db {
        Db::Sqlite(sqlite) => {
            let writes = sqlite.writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
            let counted = counted.await;
            writes.rollback().await.unwrap();
            counted
        }
        Db::Postgres(postgres) => {
            let mut writes = postgres.pool.begin().await.unwrap();
            sqlx::query(SHARED_LOCK).execute(&mut *writes).await.unwrap();
            let counted = counted.await;
            writes.rollback().await.unwrap();
            counted
        }
    };
    counted.ok()
}

/// Beginning to count a target waits until nothing is written. It would be in vain while the collection is read again.
async fn no_count_begins_while_a_collection_is_read_again(db: TestDb) {
    execute(&db, "INSERT INTO collections (nsid) VALUES ('com.example.like')").await;
    let unread = "INSERT INTO unread_refs (collection_id, after_indexed_at, after_id) SELECT id, 0, 0 FROM collections";
    execute(&db, unread).await;
    let links = (0..MANY).map(|n| link(1, &format!("r{n}"), 1, "subject.uri")).collect();
    apply(&db, 1, links).await;
    assert_eq!(count_beside_a_writer(&db).await, Some(u64::from(MANY)));
    assert_eq!(super::fixtures::count(&db, "link_counts").await, 0);
    execute(&db, "DELETE FROM unread_refs").await;
    assert_eq!(count_beside_a_writer(&db).await, None, "it waits for the writer");
    assert_eq!(count(&db, None).await, u64::from(MANY));
    assert!(super::fixtures::count(&db, "link_counts").await > 0);
}

/// Reads all records of the collection again; their references are at `then`.
async fn read_again(db: &TestDb, Unread { collection, after }: Unread) {
    let rows = records::invalid::walk(db, &collection, after, 10).await.unwrap().rows;
    let refs = vec![Ref { target: TARGET.to_owned(), paths: "then".to_owned() }];
    let reread =
        |row: &FullRecordRow| Reread { id: row.row.id, updated_at: row.updated_at, refs: refs.clone() };
    unread::replace(db, &collection, &rows.iter().map(reread).collect::<Vec<_>>()).await.unwrap();
}

/// A host of a version before 0059 stores a reference.
async fn store_without_path(db: &TestDb, target: &str) {
    let sql = format!(
        "INSERT INTO record_refs (target, collection_id, record_id) SELECT '{target}', collection_id, id FROM records"
    );
    execute(db, &sql).await;
}

async fn references_of_older_hosts_are_read_again(db: TestDb) {
    apply(&db, 1, vec![link(1, "a", 1, "subject.uri")]).await;
    unread::look_again(&db).await.unwrap();
    assert_eq!(unread::next(&db).await.unwrap(), None);
    store_without_path(&db, OTHER).await;
    unread::look_again(&db).await.unwrap();
    let found = unread::next(&db).await.unwrap().unwrap();
    let (collection, from_begin) = (found.collection.clone(), found.after);
    read_again(&db, found).await;
    let after = Keyset { indexed_at: Timestamp(1), id: 1 };
    unread::set(&db, &collection, Some(after)).await.unwrap();
    let is_postgres = matches!(*db, Db::Postgres(_));
    if is_postgres {
        // One more, of a record that was read again.
        store_without_path(&db, OTHER).await;
        assert_eq!(unread::next(&db).await.unwrap().unwrap().after, after);
        unread::set(&db, &collection, None).await.unwrap();
        let again = unread::next(&db).await.unwrap().unwrap();
        assert_eq!(again.after, from_begin);
        read_again(&db, again).await;
    }
    unread::set(&db, &collection, None).await.unwrap();
    unread::look_again(&db).await.unwrap();
    assert_eq!(unread::next(&db).await.unwrap(), None);
    assert_eq!(count(&db, Some("then")).await, 1);
}

async fn old_references_are_read_again(db: TestDb) {
    let changes = vec![link(1, "a", 1, "subject.uri"), link(2, "b", 1, "subject.uri")];
    apply(&db, 1, changes).await;
    change(&db, |of| format!("UPDATE {} SET paths = NULL, did_id = NULL", of.record_refs)).await;
    let sql = "INSERT INTO unread_refs (collection_id, after_indexed_at, after_id) \
               SELECT id, -9223372036854775808, -9223372036854775808 FROM collections";
    execute(&db, sql).await;
    set_status(&db, 2, AccountStatus::Deactivated).await;
    assert_eq!((count(&db, None).await, count(&db, Some("subject.uri")).await), (1, 0));

    let Unread { collection, after } = unread::next(&db).await.unwrap().unwrap();
    assert_eq!(collection, nsid(LIKE));
    let rows = records::invalid::walk(&db, &collection, after, 10).await.unwrap().rows;
    // One is changed after it was read.
    apply(&db, 2, vec![link(1, "a", 2, "now")]).await;
    let refs = vec![
        Ref { target: TARGET.to_owned(), paths: "then".to_owned() },
        Ref { target: OTHER.to_owned(), paths: "did".to_owned() },
    ];
    let reread: Vec<Reread> = rows
        .iter()
        .map(|row| Reread { id: row.row.id, updated_at: row.updated_at, refs: refs.clone() })
        .collect();
    assert_eq!((reread.len(), rows[0].row.record.clone()), (2, Bytes::from_static(b"{}")));
    unread::replace(&db, &collection, &reread).await.unwrap();
    unread::set(&db, &collection, None).await.unwrap();
    assert_eq!(unread::next(&db).await.unwrap(), None);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(
        (count(&db, None).await, count(&db, Some("now")).await, count(&db, Some("then")).await),
        (2, 1, 1)
    );
    let dids = links::count(&db, &of(Some("did")), &[OTHER.to_owned()], &US).await.unwrap();
    assert_eq!(dids, [1]);
}
