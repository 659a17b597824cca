use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::spaces::access::{MemberAccess, Readable};

use super::fixtures::*;
use crate::store::StoreError;
use crate::store::spaces::credentials::Revoked;
use crate::store::spaces::members::{self, IfMember, MAX_DELEGATIONS, Member, Put};
use crate::store::spaces::{credentials, delegation, deletion};

const OWN: MemberAccess = MemberAccess { reads: Readable::Own, writes: true };

async fn access(db: &Db, space: SpaceId, n: u32) -> Option<MemberAccess> {
    delegation::access(db, space, &did(n)).await.unwrap()
}

fn credential(space_id: SpaceId, jti: &str) -> Revoked {
    Revoked { space_id, jti: jti.to_owned() }
}

/// Lets a space include the members of another.
async fn include(db: &Db, space: SpaceId, skey: &str, access: MemberAccess) -> Put {
    let target = space::get(db, &uri(skey)).await.unwrap().unwrap();
    let member = Member::MembersOf(&target.uri, target.id);
    members::put(db, space, member, access, &did(CREATOR), IfMember::Replace, Timestamp(2)).await.unwrap()
}

async fn all_members(db: &Db, space: SpaceId, limit: u32) -> Vec<(String, MemberAccess)> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = delegation::page(db, space, &after, limit).await.unwrap();
        let Some((last, _)) = page.last() else { return all };
        after = last.to_string();
        all.extend(page.into_iter().map(|(did, access)| (did.to_string(), access)));
    }
}

on_both!(
    members_are_added_replaced_and_removed,
    credentials_end_with_the_right_to_read_everything,
    credentials_end_with_a_membership_in_an_included_space,
    members_of_other_spaces_are_members,
    delegation_is_bounded,
    spaces_of_an_account_are_those_it_created_joined_or_wrote_in
);

async fn members_are_added_replaced_and_removed(db: TestDb) {
    let space = create(&db, "main").await;
    assert_eq!(access(&db, space, 2).await, None);
    assert_eq!(join(&db, space, 2, READER).await, Put::Stored { revoked: Vec::new() });
    assert_eq!(access(&db, space, 2).await, Some(READER));
    join(&db, space, 2, OWN).await;
    assert_eq!(access(&db, space, 2).await, Some(OWN));
    let (two, one) = (did(2), did(CREATOR));
    let add = members::put(&db, space, Member::Account(&two), READER, &one, IfMember::Keep, Timestamp(3));
    assert_eq!(add.await.unwrap(), Put::IsMember);
    assert_eq!(access(&db, space, 2).await, Some(OWN));
    let rows = members::page(&db, space, "", 9).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.member.as_str()).collect::<Vec<_>>(), [one.as_str(), two.as_str()]);
    assert!(
        rows[1].granted_by == one.as_str() && rows[1].created_at == Timestamp(2) && !rows[1].is_delegation
    );
    assert_eq!(members::page(&db, space, one.as_str(), 9).await.unwrap(), rows[1..]);
    let remove = async || members::remove(&db, space, two.as_str(), Timestamp(4)).await.unwrap();
    assert_eq!((remove().await, remove().await), (Some(Vec::new()), None));
    assert_eq!(access(&db, space, 2).await, None);
    assert_eq!(join(&db, SpaceId(99), 2, READER).await, Put::NoSpace);
    let removed = members::remove(&db, space, "a\0b", Timestamp(4)).await;
    assert!(matches!(removed, Ok(None) | Err(StoreError::BadValue(_))), "{removed:?}");
}

async fn credentials_end_with_the_right_to_read_everything(db: TestDb) {
    let space = create(&db, "main").await;
    for (jti, n) in [("a", 2), ("b", 2), ("c", 3)] {
        join(&db, space, n, READER).await;
        credentials::issue(&db, space, jti, &did(n), Timestamp(100)).await.unwrap();
    }
    join(&db, space, 2, WRITER).await;
    assert!(!credentials::is_revoked(&db, space, "a").await.unwrap());
    let Put::Stored { mut revoked } = join(&db, space, 2, OWN).await else { panic!("it is stored") };
    revoked.sort();
    assert_eq!(revoked, ["a", "b"].map(|jti| credential(space, jti)));
    assert!(credentials::is_revoked(&db, space, "a").await.unwrap());
    assert!(!credentials::is_revoked(&db, space, "c").await.unwrap());
    let removed = members::remove(&db, space, did(3).as_str(), Timestamp(3)).await.unwrap();
    assert_eq!(removed, Some(vec![credential(space, "c")]));
    assert!(credentials::is_revoked(&db, space, "c").await.unwrap());
}

async fn credentials_end_with_a_membership_in_an_included_space(db: TestDb) {
    let [a, b, c] = [create(&db, "a").await, create(&db, "b").await, create(&db, "c").await];
    include(&db, a, "b", READER).await;
    include(&db, b, "c", READER).await;
    // A circle.
    include(&db, c, "a", READER).await;
    join(&db, a, 3, READER).await;
    for n in [2, 3, 4, 5] {
        join(&db, c, n, READER).await;
    }
    for (space, jti, n) in
        [(a, "a2", 2), (a, "a3", 3), (a, "a4", 4), (a, "a5", 5), (b, "b2", 2), (b, "b5", 5)]
    {
        assert!(credentials::issue(&db, space, jti, &did(n), Timestamp(100)).await.unwrap());
    }
    let sorted = |mut revoked: Vec<Revoked>| {
        revoked.sort();
        revoked
    };
    // Only the account loses its credentials.
    let removed = members::remove(&db, c, did(2).as_str(), Timestamp(3)).await.unwrap().unwrap();
    assert_eq!(sorted(removed), [credential(a, "a2"), credential(b, "b2")]);
    let Put::Stored { revoked } = join(&db, c, 4, OWN).await else { panic!("it is stored") };
    assert_eq!(revoked, [credential(a, "a4")]);
    // A space that still passes on the right to read everything opens what it opened.
    assert_eq!(include(&db, b, "c", WRITER).await, Put::Stored { revoked: Vec::new() });
    // All members of the space lose theirs, except accounts that are direct members.
    let removed = members::remove(&db, b, &uri("c").to_string(), Timestamp(4)).await.unwrap().unwrap();
    assert_eq!(sorted(removed), [credential(a, "a5"), credential(b, "b5")]);
    assert_eq!((access(&db, a, 5).await, access(&db, a, 3).await), (None, Some(READER)));
    assert!(!credentials::is_revoked(&db, a, "a3").await.unwrap());
    // Also when the included space is deleted.
    include(&db, b, "c", READER).await;
    assert!(credentials::issue(&db, a, "again", &did(5), Timestamp(100)).await.unwrap());
    let revoked = deletion::delete(&db, c, Timestamp(5)).await.unwrap();
    assert_eq!(revoked, Some(vec![credential(a, "again")]));
}

async fn members_of_other_spaces_are_members(db: TestDb) {
    let [a, b, c] = [create(&db, "a").await, create(&db, "b").await, create(&db, "c").await];
    join(&db, c, 5, OWN).await;
    join(&db, c, 6, WRITER).await;
    join(&db, b, 7, WRITER).await;
    include(&db, b, "c", WRITER).await;
    include(&db, a, "b", READER).await;
    // The right to write does not pass through a space that may only read.
    assert_eq!(access(&db, a, 6).await, Some(READER));
    assert_eq!(access(&db, a, 5).await, Some(MemberAccess { writes: false, ..OWN }));
    assert_eq!(access(&db, a, 7).await, Some(READER));
    assert_eq!(access(&db, b, 6).await, Some(WRITER));
    assert_eq!(access(&db, c, 7).await, None);
    // A second, wider way.
    include(&db, a, "c", WRITER).await;
    assert_eq!(access(&db, a, 6).await, Some(WRITER));
    assert_eq!(access(&db, a, 7).await, Some(READER));
    // A circle.
    include(&db, c, "a", WRITER).await;
    assert_eq!(access(&db, c, 7).await, Some(READER));
    assert_eq!(access(&db, a, 8).await, None);
    let expected =
        [(1, WRITER), (5, OWN), (6, WRITER), (7, READER)].map(|(n, access)| (did(n).to_string(), access));
    for limit in [1, 2, 9] {
        assert_eq!(all_members(&db, a, limit).await, expected, "pages of {limit}");
    }
    let spaces = async |n| -> Vec<SpaceId> {
        let found = space::of_account(&db, &did(n), None, 9).await.unwrap();
        found.into_iter().map(|row| row.id).collect()
    };
    assert_eq!((spaces(7).await, spaces(6).await, spaces(9).await), (vec![a, b, c], vec![a, b, c], vec![]));
}

async fn delegation_is_bounded(db: TestDb) {
    let mut ids = Vec::new();
    for n in 0..13 {
        ids.push(create(&db, &n.to_string()).await);
    }
    for (n, id) in ids.iter().take(12).enumerate() {
        include(&db, *id, &(n + 1).to_string(), WRITER).await;
    }
    join(&db, ids[11], 9, READER).await;
    join(&db, ids[10], 8, READER).await;
    assert_eq!(access(&db, ids[0], 8).await, Some(READER), "ten steps");
    assert_eq!((access(&db, ids[0], 9).await, access(&db, ids[2], 9).await), (None, Some(READER)));
    let listed = all_members(&db, ids[0], 9).await;
    assert_eq!(listed, [(did(1).to_string(), WRITER), (did(8).to_string(), READER)], "as access says");
    let hub = create(&db, "hub").await;
    for n in 0..=MAX_DELEGATIONS {
        let skey = format!("x{n}");
        let target = create(&db, &skey).await;
        join(&db, target, 100 + n as u32, WRITER).await;
        let put = include(&db, hub, &skey, READER).await;
        assert_eq!(put == Put::TooManyDelegations, n == MAX_DELEGATIONS, "{n}: {put:?}");
    }
    assert_eq!(access(&db, hub, CREATOR).await, Some(WRITER));
    for n in [0, MAX_DELEGATIONS - 1] {
        assert_eq!(access(&db, hub, 100 + n as u32).await, Some(READER), "the members of all are members");
    }
    assert_eq!(all_members(&db, hub, 99).await.len(), 1 + MAX_DELEGATIONS as usize);
}

async fn spaces_of_an_account_are_those_it_created_joined_or_wrote_in(db: TestDb) {
    let [a, b, c, d] =
        [create(&db, "a").await, create(&db, "b").await, create(&db, "c").await, create(&db, "d").await];
    join(&db, b, 2, OWN).await;
    apply(&db, d, 2, 5, &[put(&note("x"), 1)]).await.unwrap();
    let spaces = async |n, after, limit| -> Vec<SpaceId> {
        let found = space::of_account(&db, &did(n), after, limit).await.unwrap();
        found.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(spaces(2, None, 9).await, [b, d]);
    assert_eq!((spaces(2, None, 1).await, spaces(2, Some(b), 9).await), (vec![b], vec![d]));
    assert_eq!(spaces(CREATOR, None, 9).await, [a, b, c, d]);
}
