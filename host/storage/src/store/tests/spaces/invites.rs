use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

use super::fixtures::*;
use crate::store::StoreError;
use crate::store::spaces::delegation;
use crate::store::spaces::invites::{self, Accepted, AttemptLimit, NewInvite};

async fn invite(db: &Db, space: SpaceId, n: u8, max_uses: Option<i64>, expires_at: Option<i64>) {
    let (hash, creator) = ([n; 32], did(CREATOR));
    let invite = NewInvite {
        id: &format!("i{n}"),
        token_hash: &hash,
        access: READER,
        max_uses,
        expires_at: expires_at.map(Timestamp),
        created_by: &creator,
    };
    assert!(invites::create(db, space, &invite, Timestamp(i64::from(n))).await.unwrap());
}

async fn accept(db: &Db, n: u8, account: u32, now: i64) -> Accepted {
    invites::accept(db, &[n; 32], &did(account), Timestamp(now)).await.unwrap()
}

on_both!(
    invites_add_members,
    uses_at_once_stay_within_the_maximum,
    an_account_at_once_joins_once,
    only_the_space_of_an_invite_revokes_it,
    invites_are_listed_newest_first,
    attempts_are_limited_for_each_account
);

async fn invites_add_members(db: TestDb) {
    let space = create(&db, "main").await;
    invite(&db, space, 1, Some(2), Some(10)).await;
    let joined = Accepted::Joined { space, access: READER };
    assert_eq!(accept(&db, 1, 2, 9).await, joined);
    assert_eq!(delegation::access(&db, space, &did(2)).await.unwrap(), Some(READER));
    assert_eq!(accept(&db, 1, 2, 9).await, Accepted::IsMember);
    assert_eq!(accept(&db, 1, CREATOR, 9).await, Accepted::IsMember);
    assert_eq!(accept(&db, 1, 3, 10).await, Accepted::Expired);
    assert_eq!(accept(&db, 1, 3, 9).await, joined, "those that did not join used nothing");
    assert_eq!(accept(&db, 1, 4, 9).await, Accepted::UsedUp);
    assert_eq!(accept(&db, 9, 4, 9).await, Accepted::Unknown);
    assert_eq!(delegation::access(&db, space, &did(4)).await.unwrap(), None);
}

async fn uses_at_once_stay_within_the_maximum(db: TestDb) {
    let space = create(&db, "main").await;
    invite(&db, space, 1, Some(3), None).await;
    let uses = (10..30).map(|account| {
        let db = Db::clone(&db);
        tokio::spawn(async move { accept(&db, 1, account, 5).await })
    });
    let results = futures_util::future::join_all(uses).await;
    let joined = results.iter().filter(|result| matches!(result.as_ref().unwrap(), Accepted::Joined { .. }));
    assert_eq!(joined.count(), 3);
    assert_eq!(count(&db, "space_members").await, 4);
    assert_eq!(invites::page(&db, space, None, 9).await.unwrap()[0].uses, 3);
}

async fn an_account_at_once_joins_once(db: TestDb) {
    let space = create(&db, "main").await;
    invite(&db, space, 1, None, None).await;
    let uses = (0..8).map(|_| {
        let db = Db::clone(&db);
        tokio::spawn(async move { accept(&db, 1, 2, 5).await })
    });
    let results = futures_util::future::join_all(uses).await;
    let joined = results.iter().filter(|result| matches!(result.as_ref().unwrap(), Accepted::Joined { .. }));
    assert_eq!(joined.count(), 1);
    assert_eq!(invites::page(&db, space, None, 9).await.unwrap()[0].uses, 1);
}

async fn only_the_space_of_an_invite_revokes_it(db: TestDb) {
    let (space, other) = (create(&db, "main").await, create(&db, "other").await);
    invite(&db, space, 1, None, None).await;
    assert!(!invites::revoke(&db, other, "i1", Timestamp(5)).await.unwrap());
    assert!(invites::revoke(&db, space, "i1", Timestamp(5)).await.unwrap());
    assert!(invites::revoke(&db, space, "i1", Timestamp(6)).await.unwrap());
    assert_eq!(invites::page(&db, space, None, 9).await.unwrap()[0].revoked_at, Some(Timestamp(5)));
    assert_eq!(accept(&db, 1, 2, 6).await, Accepted::Revoked);
    let odd = invites::revoke(&db, space, "a\0b", Timestamp(5)).await;
    assert!(matches!(odd, Ok(false) | Err(StoreError::BadValue(_))), "{odd:?}");
}

async fn invites_are_listed_newest_first(db: TestDb) {
    let space = create(&db, "main").await;
    for n in 1..5 {
        invite(&db, space, n, None, None).await;
    }
    let ids = |rows: &[invites::InviteRow]| rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
    let first = invites::page(&db, space, None, 2).await.unwrap();
    assert_eq!(ids(&first), ["i4", "i3"]);
    invite(&db, space, 9, None, None).await;
    let rest = invites::page(&db, space, Some((first[1].created_at, &first[1].id)), 9).await.unwrap();
    assert_eq!(ids(&rest), ["i2", "i1"]);
    let creator = did(CREATOR);
    let again = NewInvite {
        id: "x",
        token_hash: &[1; 32],
        access: READER,
        max_uses: None,
        expires_at: None,
        created_by: &creator,
    };
    let stored = invites::create(&db, space, &again, Timestamp(1)).await;
    assert!(matches!(stored, Err(StoreError::Conflict(_))));
    assert!(!invites::create(&db, SpaceId(99), &again, Timestamp(1)).await.unwrap());
}

async fn attempts_are_limited_for_each_account(db: TestDb) {
    let limit = AttemptLimit { attempts: 2, seconds: 1 };
    let attempt = async |n, now| invites::attempt(&db, &did(n), limit, Timestamp(now)).await.unwrap();
    assert!(attempt(1, 0).await && attempt(1, 1).await && !attempt(1, 999_999).await && attempt(2, 1).await);
    assert!(attempt(1, 1_000_000).await && attempt(1, 1_000_001).await && !attempt(1, 1_000_002).await);
    assert_eq!(invites::prune_attempts(&db, Timestamp(1_000_001), 9).await.unwrap(), 1);
    assert!(attempt(2, 5).await && !attempt(1, 1_000_003).await);
}
