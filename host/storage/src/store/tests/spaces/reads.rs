use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::fixtures::*;
use crate::store::index::AccountStatus;
use crate::store::spaces::credentials::{self, Opening};
use crate::store::spaces::lists::{self, Page, Place};
use crate::store::spaces::repos::RepoHost;
use crate::store::spaces::writers::{self, Track};
use crate::store::spaces::{deletion, oplog};
use crate::store::tests::fixtures::{nsid, rev, set_status};

const OTHER: &str = "com.example.other";

/// The records of a list as `author/path`, in pages, which are the same for a credential.
async fn walk(db: &Db, space: SpaceId, list: &List<'_>) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    let uri = space::by_id(db, space).await.unwrap().unwrap().uri;
    loop {
        let list = List { after: after.as_ref(), ..*list };
        let page = lists::page(db, space, &list).await.unwrap();
        let opening = Opening { is_hosted: true, is_deleted: false, is_revoked: false };
        let for_credential = lists::page_of_credential(db, &uri, "jti", &list).await.unwrap();
        assert_eq!(for_credential, Some((opening, page.clone())), "{list:?}");
        let Page { records: page, next } = page;
        assert!(page.iter().all(|record| record.text.is_some() == list.with_text));
        found.extend(page.iter().map(|record| format!("{} {}", &record.author.as_str()[31..], record.path)));
        if next.is_none() {
            return found;
        }
        after = next;
    }
}

async fn fill(db: &Db, space: SpaceId) {
    for author in [2, 3] {
        let batch: Vec<_> = [note("a"), note("B"), path(&format!("{OTHER}/a")), path(&format!("{OTHER}/~"))]
            .iter()
            .map(|path| put(path, 1))
            .collect();
        apply(db, space, author, 10, &batch).await.unwrap();
    }
}

on_both!(
    lists_are_in_the_order_of_paths,
    a_cursor_does_not_lead_out_of_the_collection,
    writes_between_pages_lose_no_record,
    records_of_hidden_accounts_are_in_no_list_of_all,
    a_path_without_an_author_may_have_several,
    blobs_are_those_of_records,
    a_page_of_large_records_is_cut,
    a_page_says_whether_a_credential_opens_it,
    the_list_of_repos_is_in_the_order_of_changes,
    writes_elsewhere_are_tracked_unless_they_are_stale
);

async fn lists_are_in_the_order_of_paths(db: TestDb) {
    let (space, elsewhere) = (create(&db, "main").await, create(&db, "other").await);
    fill(&db, space).await;
    fill(&db, elsewhere).await;
    let all = [
        "2 com.example.note/B",
        "3 com.example.note/B",
        "2 com.example.note/a",
        "3 com.example.note/a",
        "2 com.example.other/a",
        "3 com.example.other/a",
        "2 com.example.other/~",
        "3 com.example.other/~",
    ];
    let (two, other) = (did(2), nsid(OTHER));
    for (authors, author) in [(Authors::All, ""), (Authors::One(&two), "2")] {
        for collection in [None, Some(&other)] {
            let name = collection.map_or("", |collection| collection.as_str());
            let mut expected: Vec<_> =
                all.into_iter().filter(|entry| entry.starts_with(author) && entry.contains(name)).collect();
            let counted = records::count(&db, space, authors, collection).await.unwrap();
            assert_eq!(counted, expected.len() as u64);
            for is_reverse in [false, true] {
                for limit in [1, 3, 99] {
                    let list = List {
                        authors,
                        collection,
                        is_reverse,
                        with_text: limit == 3,
                        after: None,
                        limit,
                        max_bytes: PAGE_BYTES,
                    };
                    assert_eq!(walk(&db, space, &list).await, expected, "{list:?}");
                }
                expected.reverse();
            }
        }
    }
}

/// A viewer may make up a cursor.
async fn a_cursor_does_not_lead_out_of_the_collection(db: TestDb) {
    let space = create(&db, "main").await;
    let (first, last) = ("com.example.abc", "com.example.zzz");
    let batch: Vec<_> =
        [first, NOTE, last].iter().map(|collection| put(&path(&format!("{collection}/a")), 1)).collect();
    apply(&db, space, 2, 10, &batch).await.unwrap();
    let (two, note) = (did(2), nsid(NOTE));
    for authors in [Authors::All, Authors::One(&two)] {
        for is_reverse in [false, true] {
            let list = List {
                authors,
                collection: Some(&note),
                is_reverse,
                with_text: false,
                after: None,
                limit: 9,
                max_bytes: PAGE_BYTES,
            };
            let (begin, end) = if is_reverse { (last, first) } else { (first, last) };
            for (outside, is_before) in [(begin, true), (end, false)] {
                // The record of that collection comes after it.
                let rkey = if is_reverse { "x" } else { "0" };
                let after = Place { path: path(&format!("{outside}/{rkey}")), author: two.clone() };
                let page =
                    lists::page(&db, space, &List { after: Some(&after), ..list }).await.unwrap().records;
                let found: Vec<_> = page.iter().map(|record| record.path.collection.as_str()).collect();
                assert_eq!(found, [NOTE].repeat(usize::from(is_before)), "{list:?} after {outside}");
            }
        }
    }
}

async fn writes_between_pages_lose_no_record(db: TestDb) {
    let space = create(&db, "main").await;
    fill(&db, space).await;
    let list = list_all();
    let page = lists::page(&db, space, &List { limit: 3, ..list }).await.unwrap().records;
    let after = Place { path: page[2].path.clone(), author: page[2].author.clone() };
    // Before, at, and after the position.
    let batch = [put(&note("A"), 1), take(&note("a")), put(&note("b"), 1)];
    apply(&db, space, 2, 20, &batch).await.unwrap();
    let rest = lists::page(&db, space, &List { after: Some(&after), ..list }).await.unwrap().records;
    assert_eq!(rest.len(), 6, "the five others and the new one: {rest:?}");
    assert_eq!(rest[0].path, note("a"));
    assert_eq!(rest[1].path, note("b"));
}

async fn records_of_hidden_accounts_are_in_no_list_of_all(db: TestDb) {
    let space = create(&db, "main").await;
    fill(&db, space).await;
    set_status(&db, 3, AccountStatus::TakenDown).await;
    assert_eq!(walk(&db, space, &list_all()).await.len(), 4);
    assert_eq!(records::count(&db, space, Authors::All, None).await.unwrap(), 4);
    assert_eq!(records::count(&db, space, Authors::One(&did(3)), None).await.unwrap(), 4);
    assert_eq!(writers::page(&db, space, "", 9).await.unwrap().len(), 1);
}

async fn a_path_without_an_author_may_have_several(db: TestDb) {
    let space = create(&db, "main").await;
    fill(&db, space).await;
    apply(&db, space, 2, 20, &[put(&note("x"), 1)]).await.unwrap();
    let authors = async |path| records::authors_of(&db, space, &path).await.unwrap();
    assert_eq!(authors(note("x")).await, [did(2)]);
    assert_eq!(authors(note("a")).await, [did(2), did(3)]);
    assert!(authors(note("y")).await.is_empty());
}

async fn blobs_are_those_of_records(db: TestDb) {
    let space = create(&db, "main").await;
    let with = |rkey: &str, blobs: &[&str]| {
        let mut write = put(&note(rkey), 1);
        write.record.as_mut().unwrap().blobs = blobs.iter().map(|&cid| cid.to_owned()).collect();
        write
    };
    let first =
        apply(&db, space, 2, 1, &[with("a", &["c", "a", "a"]), with("b", &["a", "b"])]).await.unwrap();
    let blobs = async |since, after: &str, limit| {
        records::blobs(&db, space, &did(2), since, after, limit).await.unwrap()
    };
    assert_eq!(blobs(None, "", 9).await, ["a", "b", "c"]);
    assert_eq!(
        (blobs(None, "", 2).await, blobs(None, "b", 2).await),
        (vec!["a".into(), "b".into()], vec!["c".to_owned()])
    );
    apply(&db, space, 2, 2, &[with("b", &["d"])]).await.unwrap();
    assert_eq!(
        (blobs(None, "", 9).await.join(" "), blobs(first.rev, "", 9).await),
        ("a c d".to_owned(), vec!["d".to_owned()])
    );
    let has = async |author, cid| records::has_blob(&db, space, &did(author), cid).await.unwrap();
    assert!(has(2, "d").await && !has(2, "b").await && !has(3, "d").await);
    apply(&db, space, 2, 3, &[take(&note("a")), take(&note("b"))]).await.unwrap();
    assert_eq!(count(&db, "space_blobs").await, 0);
}

async fn the_list_of_repos_is_in_the_order_of_changes(db: TestDb) {
    let space = create(&db, "main").await;
    for (author, now) in [(4, 10), (2, 20), (3, 30)] {
        apply(&db, space, author, now, &[put(&note("a"), 1)]).await.unwrap();
    }
    let page = async |after: &str, limit| writers::page(&db, space, after, limit).await.unwrap();
    let authors = |rows: &[writers::WriterRow]| -> Vec<String> {
        rows.iter().map(|row| row.author.as_str()[31..].to_owned()).collect()
    };
    let first = page("", 2).await;
    assert_eq!(authors(&first), ["4", "2"]);
    // A repo that changes meanwhile appears again.
    apply(&db, space, 4, 40, &[put(&note("b"), 1)]).await.unwrap();
    let cursor = first[1].space_rev.to_string();
    assert_eq!(authors(&page(&cursor, 9).await), ["3", "4"]);
    // Any text is a cursor.
    let nul = format!("{cursor}\0x");
    assert_eq!(authors(&page(&nul, 9).await), ["3", "4"]);
    for (text, rows) in [("\0", 3), ("0", 3), ("zzzz", 0), ("\u{10FFFF}", 0), ("~", 0)] {
        assert_eq!(page(text, 9).await.len(), rows, "{text:?}");
    }
}

async fn writes_elsewhere_are_tracked_unless_they_are_stale(db: TestDb) {
    let space = create(&db, "main").await;
    let track = async |author, n, now| {
        writers::track(&db, space, &did(author), (rev(n), [n as u8; 32]), None, Timestamp(now)).await.unwrap()
    };
    let Track::Stored(first) = track(2, 5, 100).await else { panic!("it is stored") };
    let Track::Stored(second) = track(3, 1, 100).await else { panic!("it is stored") };
    assert_eq!((first.previous, second.previous), (None, Some(first.space_rev)));
    assert!(second.space_rev > first.space_rev);
    assert_eq!((track(2, 5, 200).await, track(2, 4, 200).await), (Track::Stale, Track::Stale));
    let row = writers::get(&db, space, &did(2)).await.unwrap().unwrap();
    assert_eq!((row.rev, row.hash, row.space_rev), (rev(5), [5; 32], first.space_rev));
    assert!(writers::get(&db, space, &did(4)).await.unwrap().is_none());
    assert_eq!(row.host, RepoHost::Unnamed);
    let refused = apply(&db, space, 2, 300, &[put(&note("a"), 1)]).await;
    assert_eq!(refused, Err(Refused::Elsewhere), "its author writes there");
    // A write here is later, though its clock is behind that of the other host.
    apply(&db, space, 4, 300, &[put(&note("a"), 1)]).await.unwrap();
    assert!(matches!(track(4, 900_000, 400).await, Track::Stored(_)));
    let here = apply(&db, space, 4, 500, &[put(&note("a"), 2)]).await.unwrap();
    assert!(here.rev > Some(rev(900_000)), "{here:?}");
    let row = writers::get(&db, space, &did(4)).await.unwrap().unwrap();
    assert_eq!((Some(row.rev), row.host), (here.rev, RepoHost::Here));
    // The repos of the others are at other hosts.
    assert!(matches!(track(5, 1, 600).await, Track::Stored(_)));
    let elsewhere = async |after: &str, limit| -> Vec<Did> {
        let page = writers::elsewhere(&db, space, after, limit).await.unwrap();
        page.into_iter().map(|row| row.author).collect()
    };
    assert_eq!(elsewhere("", 2).await, [did(2), did(3)]);
    assert_eq!(elsewhere(did(3).as_str(), 2).await, [did(5)]);
    let other = "at://did:web:x.example/space/a.b.c/d".parse().unwrap();
    let foreign = space::of_other_host(&db, &other, Timestamp(1)).await.unwrap().unwrap();
    let tracked = writers::track(&db, foreign, &did(2), (rev(1), [0; 32]), None, Timestamp(1)).await.unwrap();
    assert_eq!(tracked, Track::NoSpace);
}

async fn a_page_says_whether_a_credential_opens_it(db: TestDb) {
    let space = create(&db, "main").await;
    let open = async |skey: &str, jti: &str| {
        let found = lists::page_of_credential(&db, &uri(skey), jti, &list_all()).await.unwrap();
        found.map(|(opening, page)| (opening, page.records.len()))
    };
    let opening = Opening { is_hosted: true, is_deleted: false, is_revoked: false };
    assert_eq!(open("main", "a").await, Some((opening, 0)), "it has no records");
    assert_eq!(open("absent", "a").await, None);
    fill(&db, space).await;
    let revoked = ["a".to_owned()];
    credentials::revoke(&db, space, &revoked, Timestamp(5), Timestamp(99)).await.unwrap();
    assert_eq!(open("main", "a").await, Some((Opening { is_revoked: true, ..opening }, 0)));
    assert_eq!(open("main", "b").await, Some((opening, 8)));
    let other = space::of_other_host(&db, &uri("other"), Timestamp(1)).await.unwrap().unwrap();
    apply(&db, other, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    assert_eq!(open("other", "a").await, Some((Opening { is_hosted: false, ..opening }, 0)));
    deletion::delete(&db, space, Timestamp(9)).await.unwrap();
    assert_eq!(open("main", "b").await, Some((Opening { is_deleted: true, ..opening }, 0)));
}

async fn a_page_of_large_records_is_cut(db: TestDb) {
    const LARGE: usize = 900_000;
    let space = create(&db, "main").await;
    // Some twelve of them fit into a page.
    for n in 0..30 {
        let record = new_record(&serde_json::json!({ "n": n, "text": "x".repeat(LARGE) }).to_string());
        let write =
            Write { path: note(&format!("k{n:02}")), record: Some(record), requires: Precondition::Absent };
        apply(&db, space, 2, 10 + n, &[write]).await.unwrap();
    }
    let (two, mut list) = (did(2), list_all());
    for is_reverse in [false, true] {
        list.is_reverse = is_reverse;
        let page = lists::page(&db, space, &list).await.unwrap();
        let bytes: usize = page.records.iter().map(|record| record.text.as_ref().unwrap().len()).sum();
        assert!(page.records.len() < 30 && bytes <= 10_240_000, "{bytes}");
        assert_eq!(walk(&db, space, &list).await.len(), 30);
    }
    let (found, has_more) = records::of_author(&db, &two, None, 1_000).await.unwrap();
    assert!(found.len() < 30 && has_more && found.iter().all(|(_, record)| record.text.is_some()));
    let (mut seen, mut after) = (0, None);
    loop {
        let page = oplog::page(&db, space, &two, after, 1_000, true).await.unwrap().unwrap();
        assert!(page.ops.len() < 30 && page.ops.iter().all(|logged| logged.record.is_some()));
        seen += page.ops.len();
        if !page.has_more {
            break;
        }
        after = page.ops.last().map(|logged| logged.op.position);
    }
    assert_eq!(seen, 30);
}
