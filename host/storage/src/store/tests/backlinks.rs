//! Backlinks: every source once, newest first, in pages, without hidden accounts.

use super::fixtures::*;
use crate::store::testing::TestDb;

use crate::query::{Backlinks, Links};
use crate::store::records::{Page, backlinks};

use crate::store::Db;
use crate::store::index::AccountStatus;

const TARGET: &str = "at://did:plc:target/com.example.note/1";

fn links(collection: &str, limit: u32) -> Backlinks {
    Backlinks {
        links: Links { collection: nsid(collection), path: None },
        target: TARGET.to_owned(),
        did: None,
        limit,
        after: None,
        uris_only: false,
    }
}

async fn read(db: &Db, links: &Backlinks) -> Page {
    backlinks::read(db, links, &US).await.unwrap()
}

fn rkeys(page: &Page) -> Vec<&str> {
    page.rows.iter().map(|row| row.rkey.as_str()).collect()
}

async fn fill(db: &Db) {
    for n in 0..5_u32 {
        let naming = put_with_refs(&uri(n % 2, LIKE, &format!("r{n}")), 1, "{}", &[TARGET, "at://other"]);
        apply(db, i64::from(n), vec![naming]).await;
    }
    let others = vec![
        put_with_refs(&uri(0, NOTE, "reply"), 1, "{}", &[TARGET]),
        put_with_refs(&uri(0, LIKE, "else"), 1, "{}", &["at://did:plc:target/com.example.note/12"]),
    ];
    apply(db, 9, others).await;
}

on_both!(
    a_public_record_can_name_one_in_a_space,
    are_paged_last_created_first,
    are_of_one_collection_and_account,
    without_records_are_the_same_rows,
    follow_updates_deletes_and_accounts
);

async fn without_records_are_the_same_rows(db: TestDb) {
    fill(&db).await;
    set_status(&db, 7, AccountStatus::Deactivated).await;
    for did in [None, Some(did(1))] {
        let mut with = Backlinks { did: did.clone(), ..links(LIKE, 2) };
        let mut without = Backlinks { uris_only: true, ..with.clone() };
        loop {
            let (page, places) = (read(&db, &with).await, read(&db, &without).await);
            let of =
                |page: &Page| page.rows.iter().map(|row| (row.uri(), row.indexed_at)).collect::<Vec<_>>();
            assert_eq!(of(&page), of(&places));
            assert!(places.rows.iter().all(|row| row.record == "{}" && row.cid.is_none()));
            assert_eq!(page.next, places.next);
            if page.next.is_none() {
                break;
            }
            (with.after, without.after) = (page.next, places.next);
        }
    }
    let all = Backlinks { uris_only: true, ..links(LIKE, 1_000) };
    assert_eq!(read(&db, &all).await.rows.len(), 5);
}

async fn a_public_record_can_name_one_in_a_space(db: TestDb) {
    let in_space = "at://did:plc:space/space/com.example.group/main/did:plc:target/com.example.note/1";
    let naming = |rkey, target| put_with_refs(&uri(0, LIKE, rkey), 1, "{}", &[target]);
    apply(&db, 1, vec![naming("public", TARGET), naming("in-space", in_space)]).await;
    let of = |target: &str| Backlinks { target: target.to_owned(), ..links(LIKE, 5) };
    assert_eq!(rkeys(&read(&db, &of(in_space)).await), ["in-space"]);
    assert_eq!(rkeys(&read(&db, &of(TARGET)).await), ["public"]);
    let space = "at://did:plc:space/space/com.example.group/main";
    assert_eq!(rkeys(&read(&db, &of(space)).await), [""; 0], "the whole address counts");
}

async fn are_paged_last_created_first(db: TestDb) {
    fill(&db).await;
    let mut links = links(LIKE, 2);
    let first = read(&db, &links).await;
    assert_eq!(rkeys(&first), ["r4", "r3"]);
    links.after = first.next;
    // Records that are indexed between two pages do not shift them.
    apply(&db, 20, vec![put_with_refs(&uri(1, LIKE, "late"), 1, "{}", &[TARGET])]).await;
    let second = read(&db, &links).await;
    assert_eq!(rkeys(&second), ["r2", "r1"]);
    links.after = second.next;
    let last = read(&db, &links).await;
    assert_eq!((rkeys(&last), last.next.clone()), (vec!["r0"], None));
}

async fn are_of_one_collection_and_account(db: TestDb) {
    fill(&db).await;
    assert_eq!(rkeys(&read(&db, &links(NOTE, 20)).await), ["reply"]);
    assert!(read(&db, &links("com.example.none", 20)).await.rows.is_empty());
    let of_one = Backlinks { did: Some(did(1)), ..links(LIKE, 20) };
    assert_eq!(rkeys(&read(&db, &of_one).await), ["r3", "r1"]);
    let of_nobody = Backlinks { did: Some(did(7)), ..links(LIKE, 20) };
    assert!(read(&db, &of_nobody).await.rows.is_empty());
}

async fn follow_updates_deletes_and_accounts(db: TestDb) {
    fill(&db).await;
    apply(
        &db,
        30,
        vec![put_with_refs(&uri(0, LIKE, "r4"), 2, "{}", &["at://else"]), take(&uri(1, LIKE, "r3"), 2)],
    )
    .await;
    assert_eq!(rkeys(&read(&db, &links(LIKE, 20)).await), ["r2", "r1", "r0"]);
    set_status(&db, 1, AccountStatus::Deactivated).await;
    assert_eq!(rkeys(&read(&db, &links(LIKE, 20)).await), ["r2", "r0"]);
}
