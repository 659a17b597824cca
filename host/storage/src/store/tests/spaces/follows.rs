//! Spaces of other hosts that are followed, and the copies of repos.

use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

use super::fixtures::*;
use crate::store::spaces::follows::{self, Observed};
use crate::store::spaces::writers::Listed;
use crate::store::spaces::writes::{Synced, Synchronized, replace};
use crate::store::spaces::{copies, deletion, repos, writers};
use crate::store::tests::fixtures::rev;
use crate::store::{StoreError, on};

const FOLLOWER: u32 = 7;

/// A space of another host, followed for one account.
async fn followed(db: &Db, skey: &str) -> SpaceId {
    let space = space::of_other_host(db, &uri(skey), Timestamp(1)).await.unwrap().unwrap();
    assert!(follows::begin(db, space, &did(FOLLOWER)).await.unwrap());
    space
}

fn listed(author: u32, n: u64, space_rev: u64) -> Listed {
    let host = Some(did(9));
    Listed { author: did(author), rev: rev(n), hash: [n as u8; 32], host, space_rev: rev(space_rev) }
}

/// The row of a space, if it is followed for an account.
async fn row(db: &Db, space: SpaceId) -> Option<follows::FollowRow> {
    let followers = follows::followers(db, space, 1).await.unwrap();
    follows::of(db, space, followers.first()?).await.unwrap()
}

async fn due(db: &Db, now: i64) -> Vec<copies::DueCopy> {
    copies::due(db, Timestamp(now), 9, &[]).await.unwrap()
}

/// Copies a repo with one note. `hash`: that of such a repo.
async fn copy_note(db: &Db, space: SpaceId, author: u32, hash: [u8; 32]) {
    let author = did(author);
    let (max_bytes, now) = (u64::MAX, Timestamp(20));
    let to = Synced { space, author: &author, from: None, rev: rev(5), hash, max_bytes, now };
    let stored = replace(db, &to, &[(note("a"), numbered(1))]).await.unwrap();
    assert_eq!(stored, Synchronized::Stored);
}

on_both!(
    missing_notices_are_noticed,
    the_position_in_the_list_of_repos_moves_once,
    a_space_is_followed_for_accounts,
    a_repo_is_due_until_it_is_copied,
    a_repo_that_is_here_is_not_copied,
    a_space_is_complete_when_each_repo_was_tried,
    a_list_has_a_bound,
    copies_go_with_the_last_follower
);

async fn missing_notices_are_noticed(db: TestDb) {
    let space = space::of_other_host(&db, &uri("main"), Timestamp(1)).await.unwrap().unwrap();
    let observe_in = async |space, n, previous: Option<u64>| {
        let now = Timestamp(10);
        follows::observe(&db, space, &listed(2, n, n), previous.map(rev), now).await.unwrap()
    };
    let observe = async |n, previous| observe_in(space, n, previous).await;
    assert_eq!(observe(1, None).await, Observed::NotFollowed);
    assert!(follows::begin(&db, space, &did(FOLLOWER)).await.unwrap());
    assert_eq!(observe(1, None).await, Observed::Next);
    assert_eq!(observe(3, Some(1)).await, Observed::Next);
    assert_eq!((observe(3, Some(1)).await, observe(2, None).await), (Observed::Old, Observed::Old));
    assert_eq!(writers::get(&db, space, &did(2)).await.unwrap().unwrap().rev, rev(3));
    let row = follows::due(&db, Timestamp(40), 9).await.unwrap().remove(0);
    assert!(follows::begin_check(&db, &row, Timestamp(50)).await.unwrap());
    let due = async || follows::due(&db, Timestamp(40), 9).await.unwrap().len();
    assert_eq!((observe(4, Some(3)).await, due().await), (Observed::Next, 0));
    assert_eq!((observe(9, Some(7)).await, due().await), (Observed::Gap, 1), "its list is read soon");
    follows::end_check(&db, space, Timestamp(50), false, Timestamp(90)).await.unwrap();
    assert_eq!(due().await, 1, "the gap came after the check had begun");
    assert_eq!(observe(11, Some(8)).await, Observed::Next, "an older one is harmless");
    let other = followed(&db, "other").await;
    assert_eq!(observe_in(other, 5, Some(4)).await, Observed::Gap, "there were writes before");
}

async fn the_position_in_the_list_of_repos_moves_once(db: TestDb) {
    let space = followed(&db, "main").await;
    let store = async |from, to, page: &[Listed]| {
        follows::store_page(&db, space, page, (from, to), Timestamp(50)).await.unwrap()
    };
    assert!(store(None, Some("a"), &[listed(2, 1, 1), listed(3, 1, 1)]).await, "a rev that is there twice");
    assert!(!store(None, Some("b"), &[listed(4, 1, 2)]).await);
    assert!(writers::get(&db, space, &did(4)).await.unwrap().is_none());
    let row = row(&db, space).await.unwrap();
    assert_eq!((row.cursor.as_deref(), row.listed_at), (Some("a"), Timestamp(0)));
    assert!(store(Some("a"), Some("a"), &[]).await);
    follows::restart(&db, space, Timestamp(55)).await.unwrap();
    let row = self::row(&db, space).await.unwrap();
    assert_eq!((row.cursor, row.listed_at), (None, Timestamp(55)));
    assert!(!follows::complete(&db, space, Some("a")).await.unwrap(), "it is read again meanwhile");
    assert!(store(None, Some("a"), &[]).await);
    let odd = follows::store_page(&db, space, &[], (Some("a"), Some("a\0b")), Timestamp(60)).await;
    assert!(matches!(odd, Ok(true) | Err(StoreError::BadValue(_))), "{odd:?}");
    follows::end_all(&db, space).await.unwrap();
    assert!(!follows::store_page(&db, space, &[listed(4, 1, 2)], (None, None), Timestamp(50)).await.unwrap());
    assert!(writers::get(&db, space, &did(2)).await.unwrap().is_none());
}

async fn a_space_is_followed_for_accounts(db: TestDb) {
    let space = followed(&db, "main").await;
    let begin = async |space, n| follows::begin(&db, space, &did(n)).await.unwrap();
    assert!(begin(space, FOLLOWER).await && begin(space, 8).await);
    assert!(!begin(SpaceId(99), 8).await && !begin(create(&db, "hosted").await, 8).await);
    assert_eq!(follows::followers(&db, space, 9).await.unwrap(), [did(FOLLOWER), did(8)]);
    follows::refused(&db, space, &did(FOLLOWER), Timestamp(5)).await.unwrap();
    assert_eq!(follows::followers(&db, space, 1).await.unwrap(), [did(8)]);
    assert_eq!(follows::count_of(&db, &did(8)).await.unwrap(), 1);
    let of = async |n| follows::of(&db, space, &did(n)).await.unwrap().is_some();
    assert!(of(8).await && !of(6).await);
    let until = Timestamp(99);
    follows::registered(&db, space, until).await.unwrap();
    let end = async |n| follows::end(&db, space, &did(n)).await.unwrap();
    assert!(end(FOLLOWER).await && !end(FOLLOWER).await);
    assert_eq!(row(&db, space).await.unwrap().registered_until, until);
    deletion::purge_account(&db, &did(8), Timestamp(9)).await.unwrap();
    assert!(row(&db, space).await.is_none());
    assert_eq!(count(&db, "space_followers").await, 0);
}

async fn a_repo_is_due_until_it_is_copied(db: TestDb) {
    let space = followed(&db, "main").await;
    let observe = async |n, now| {
        follows::observe(&db, space, &listed(2, n, n), None, Timestamp(now)).await.unwrap();
    };
    observe(1, 10).await;
    assert!(due(&db, 9).await.is_empty());
    let copy = due(&db, 10).await.remove(0);
    assert_eq!((copy.space, &copy.author, &copy.host), (space, &did(2), &Some(did(9))));
    assert!(copies::due(&db, Timestamp(10), 9, std::slice::from_ref(&copy.share)).await.unwrap().is_empty());
    let begin = async || copies::begin(&db, &copy, Timestamp(50)).await.unwrap();
    assert!(begin().await && !begin().await && due(&db, 49).await.is_empty());
    copies::end(&db, &copy, Timestamp(50), true, Some(Timestamp(60))).await.unwrap();
    let copy = due(&db, 60).await.remove(0);
    assert_eq!(copy.failures, 1);
    assert!(copies::begin(&db, &copy, Timestamp(90)).await.unwrap());
    observe(2, 70).await;
    copies::end(&db, &copy, Timestamp(90), false, None).await.unwrap();
    let copy = due(&db, 70).await.remove(0);
    assert_eq!(copy.failures, 1, "another state came while the last one was read");
    assert!(copies::begin(&db, &copy, Timestamp(95)).await.unwrap());
    let page = [listed(2, 2, 3)];
    assert!(follows::store_page(&db, space, &page, (None, None), Timestamp(71)).await.unwrap());
    copies::end(&db, &copy, Timestamp(95), false, None).await.unwrap();
    assert!(due(&db, i64::MAX).await.is_empty(), "the list had nothing new");
}

async fn a_repo_that_is_here_is_not_copied(db: TestDb) {
    let space = followed(&db, "main").await;
    apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    let page = [listed(2, 900, 900)];
    assert!(follows::store_page(&db, space, &page, (None, Some("900")), Timestamp(20)).await.unwrap());
    assert!(due(&db, i64::MAX).await.is_empty());
    let row = writers::get(&db, space, &did(2)).await.unwrap().unwrap();
    assert_eq!((row.rev, row.host), (rev(900), repos::RepoHost::Here));
    apply(&db, space, 2, 30, &[put(&note("a"), 2)]).await.unwrap();
}

async fn a_space_is_complete_when_each_repo_was_tried(db: TestDb) {
    let space = followed(&db, "main").await;
    let page = [listed(2, 1, 1), listed(3, 1, 2)];
    assert!(follows::store_page(&db, space, &page, (None, Some("2")), Timestamp(20)).await.unwrap());
    let complete = async || follows::complete(&db, space, Some("2")).await.unwrap();
    let copies = due(&db, 20).await;
    for (copy, (has_failed, next)) in copies.iter().zip([(true, Some(Timestamp(99))), (false, None)]) {
        assert!(!complete().await);
        assert!(copies::begin(&db, copy, Timestamp(50)).await.unwrap());
        copies::end(&db, copy, Timestamp(50), has_failed, next).await.unwrap();
    }
    assert!(complete().await && row(&db, space).await.unwrap().is_complete);
    // A copy that is not up to date is one.
    let busy = followed(&db, "busy").await;
    let hash = apply(&db, create(&db, "source").await, 2, 10, &[put(&note("a"), 1)]).await.unwrap().hash;
    copy_note(&db, busy, 4, hash).await;
    let newer = [listed(4, 9, 9)];
    assert!(follows::store_page(&db, busy, &newer, (None, Some("9")), Timestamp(20)).await.unwrap());
    assert!(follows::complete(&db, busy, Some("9")).await.unwrap() && due(&db, 20).await.len() == 1);
    let again = [listed(4, 1, 3)];
    assert!(follows::store_page(&db, space, &again, (Some("2"), Some("3")), Timestamp(30)).await.unwrap());
    assert!(!complete().await, "the list was read further meanwhile");
    assert!(row(&db, space).await.unwrap().is_complete, "it stays so");
}

async fn a_list_has_a_bound(db: TestDb) {
    let space = followed(&db, "main").await;
    let mut from = None;
    for page in 0..12_u32 {
        let page: Vec<Listed> = (0..1_000).map(|n| listed(10 + page * 1_000 + n, 1, 1)).collect();
        let to = Some(format!("{}", page[0].author));
        let moves = (from.as_deref(), to.as_deref());
        assert!(follows::store_page(&db, space, &page, moves, Timestamp(20)).await.unwrap());
        from = to;
    }
    assert_eq!(count(&db, "space_writers").await, 10_000);
    let page = [listed(10, 5, 5), listed(99_999, 1, 6)];
    let moves = (from.as_deref(), Some("end"));
    assert!(follows::store_page(&db, space, &page, moves, Timestamp(30)).await.unwrap());
    let known = writers::get(&db, space, &did(10)).await.unwrap().unwrap();
    assert_eq!((known.rev, count(&db, "space_writers").await), (rev(5), 10_000), "known repos go on");
    let tried = "UPDATE space_writers SET pull_at = NULL WHERE author <> $1";
    let try_all = async |but: &str| {
        on!(&*db, writer, |pool| sqlx::query(tried).bind(but).execute(pool).await.map(drop)).unwrap();
    };
    let complete = async || follows::complete(&db, space, Some("end")).await.unwrap();
    try_all(did(10).as_str()).await;
    assert!(!complete().await);
    try_all("").await;
    assert!(complete().await, "there is nothing left to do");
    assert!(!row(&db, space).await.unwrap().is_complete, "more repos may be missing");
}

async fn copies_go_with_the_last_follower(db: TestDb) {
    let (space, kept) = (followed(&db, "main").await, followed(&db, "kept").await);
    let hash = apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap().hash;
    for space in [space, kept] {
        copy_note(&db, space, 3, hash).await;
    }
    copies::purge(&db).await.unwrap();
    assert_eq!(count(&db, "space_repos").await, 3);
    assert!(follows::end(&db, space, &did(FOLLOWER)).await.unwrap());
    copies::purge(&db).await.unwrap();
    let repo = async |space, n| repos::state(&db, space, &did(n)).await.unwrap();
    assert!(repo(space, 3).await.is_none() && repo(kept, 3).await.unwrap().is_copy());
    assert!(!repo(space, 2).await.unwrap().is_copy(), "the repo of our user stays");
    assert!(records::get(&db, space, &did(3), &note("a")).await.unwrap().is_none());
}
