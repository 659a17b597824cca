use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

use super::fixtures::*;
use crate::store::on;
use crate::store::spaces::credentials::Revoked;
use crate::store::spaces::invites::{self, Accepted, NewInvite};
use crate::store::spaces::members::Put;
use crate::store::spaces::{credentials, delegation, deletion, registrations, repos};

/// A space with a row in every table.
async fn full(db: &Db, skey: &str, tag: u8) -> SpaceId {
    let space = create(db, skey).await;
    join(db, space, 2, WRITER).await;
    let creator = did(CREATOR);
    let invite = NewInvite {
        id: skey,
        token_hash: &[tag; 32],
        access: READER,
        max_uses: None,
        expires_at: None,
        created_by: &creator,
    };
    invites::create(db, space, &invite, Timestamp(1)).await.unwrap();
    credentials::issue(db, space, "jti", &did(2), Timestamp(100)).await.unwrap();
    let register = registrations::register(
        db,
        space,
        "did:web:a#b",
        "https://a",
        "did:plc:c",
        Timestamp(90),
        Timestamp(1),
    );
    register.await.unwrap();
    // These rows stay from a time at which another host had the space.
    for sql in [
        "INSERT INTO space_follows (space_id, is_complete, registered_until, check_at, failures) SELECT $1, $2, 0, 0, 0",
        "INSERT INTO space_followers (space_id, did, refused_at) SELECT $1, 'did:plc:b', 0 WHERE NOT $2",
    ] {
        on!(db, writer, |pool| sqlx::query(sql).bind(space).bind(false).execute(pool).await.map(drop))
            .unwrap();
    }
    for author in [CREATOR, 2] {
        let mut write = put(&note("a"), 1);
        write.record.as_mut().unwrap().blobs = vec!["cid".to_owned()];
        apply(db, space, author, 10, &[write]).await.unwrap();
    }
    space
}

/// The tables with rows of one space.
pub const TABLES: [&str; 12] = [
    "space_members",
    "space_repos",
    "space_writers",
    "space_records",
    "space_blobs",
    "space_ops",
    "space_credentials",
    "space_invites",
    "space_registrations",
    "space_deliveries",
    "space_follows",
    "space_followers",
];

async fn counts(db: &Db) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(count(db, table).await);
    }
    counts
}

on_both!(
    a_deleted_space_is_gone_but_for_its_address,
    many_rows_are_removed_in_steps,
    members_of_a_deleted_space_are_members_of_no_other,
    a_repo_is_removed_with_its_log,
    a_deleted_account_leaves_nothing_in_spaces
);

async fn a_deleted_space_is_gone_but_for_its_address(db: TestDb) {
    let kept = full(&db, "kept", 1).await;
    let before = counts(&db).await;
    let space = full(&db, "gone", 2).await;
    assert!(
        counts(&db).await.iter().zip(&before).all(|(now, before)| *now == 2 * before),
        "every table has rows"
    );
    let joined = async || delegation::access(&db, space, &did(2)).await.unwrap();
    assert_eq!(joined().await, Some(WRITER));
    let accept = async |n| invites::accept(&db, &[2; 32], &did(n), Timestamp(40)).await.unwrap();
    assert_eq!(accept(4).await, Accepted::Joined { space, access: READER });
    assert_eq!(space::of_account(&db, &did(2), None, 9).await.unwrap().len(), 2);
    assert_eq!(deletion::delete(&db, space, Timestamp(50)).await.unwrap(), Some(Vec::new()));
    assert!(deletion::delete(&db, space, Timestamp(51)).await.unwrap().is_none());
    let row = space::get(&db, &uri("gone")).await.unwrap().unwrap();
    assert_eq!((row.deleted_at, row.settings.display_name), (Some(Timestamp(50)), None));
    assert_eq!(joined().await, None);
    assert_eq!(apply(&db, space, 2, 60, &[put(&note("b"), 1)]).await, Err(Refused::NoSpace));
    assert_eq!(join(&db, space, 3, READER).await, Put::NoSpace);
    assert_eq!(accept(3).await, Accepted::Unknown);
    assert!(space::of_account(&db, &did(2), None, 9).await.unwrap().iter().all(|row| row.id == kept));
    assert!(deletion::purge(&db, Timestamp(70)).await.unwrap() > 0);
    assert!(registrations::unregister(&db, space, "did:web:a#b").await.unwrap(), "it waits for the notice");
    assert_eq!(counts(&db).await, before, "the other space has all its rows");
    assert_eq!(deletion::purge(&db, Timestamp(70)).await.unwrap(), 0);
    let again = space::create(&db, &uri("gone"), &did(1), &settings(), Timestamp(80)).await.unwrap();
    assert_eq!(again, None, "its address is not used again");
}

async fn many_rows_are_removed_in_steps(db: TestDb) {
    let space = create(&db, "main").await;
    for n in 0..13 {
        let batch: Vec<_> = (0..200).map(|m| put(&note(&format!("r{n}-{m}")), 1)).collect();
        apply(&db, space, 2, n, &batch).await.unwrap();
    }
    deletion::delete(&db, space, Timestamp(50)).await.unwrap().unwrap();
    assert_eq!(count(&db, "space_records").await, 2_600);
    assert_eq!(deletion::purge(&db, Timestamp(51)).await.unwrap(), 2 * 2_600 + 2);
    assert_eq!((count(&db, "space_records").await, count(&db, "space_ops").await), (0, 0));
}

async fn members_of_a_deleted_space_are_members_of_no_other(db: TestDb) {
    use crate::store::spaces::members::{self, IfMember, Member};
    let (space, target) = (create(&db, "main").await, create(&db, "target").await);
    join(&db, target, 2, READER).await;
    let (target_uri, creator) = (uri("target"), did(CREATOR));
    let member = Member::MembersOf(&target_uri, target);
    members::put(&db, space, member, READER, &creator, IfMember::Replace, Timestamp(1)).await.unwrap();
    assert!(delegation::access(&db, space, &did(2)).await.unwrap().is_some());
    deletion::delete(&db, target, Timestamp(50)).await.unwrap().unwrap();
    assert!(delegation::access(&db, space, &did(2)).await.unwrap().is_none());
}

async fn a_repo_is_removed_with_its_log(db: TestDb) {
    let space = full(&db, "main", 1).await;
    assert!(deletion::remove_repo(&db, space, &did(2)).await.unwrap());
    assert!(!deletion::remove_repo(&db, space, &did(2)).await.unwrap());
    assert!(repos::state(&db, space, &did(2)).await.unwrap().is_none());
    assert!(repos::state(&db, space, &did(CREATOR)).await.unwrap().is_some());
    for table in
        ["space_repos", "space_writers", "space_records", "space_blobs", "space_ops", "space_deliveries"]
    {
        assert_eq!(count(&db, table).await, 1, "{table}");
    }
}

async fn a_deleted_account_leaves_nothing_in_spaces(db: TestDb) {
    let (a, b) = (full(&db, "a", 1).await, full(&db, "b", 2).await);
    let (own_service, two) = ("did:web:own#b", did(2));
    registrations::register(&db, a, own_service, "https://o", two.as_str(), Timestamp(90), Timestamp(1))
        .await
        .unwrap();
    let own = belvedere_protocol::spaces::SpaceUri { did: did(2), ..uri("own") };
    let own_id = space::create(&db, &own, &did(2), &settings(), Timestamp(1)).await.unwrap().unwrap();
    apply(&db, own_id, 3, 10, &[put(&note("a"), 1)]).await.unwrap();
    let limit = invites::AttemptLimit { attempts: 1, seconds: 1 };
    invites::attempt(&db, &did(2), limit, Timestamp(1)).await.unwrap();
    for space in [a, b] {
        assert!(repos::state(&db, space, &did(2)).await.unwrap().is_some());
        assert_eq!(delegation::access(&db, space, &did(2)).await.unwrap(), Some(WRITER));
        assert!(!credentials::is_revoked(&db, space, "jti").await.unwrap());
    }
    assert_eq!(count(&db, "space_invite_attempts").await, 1);
    let mut revoked = deletion::purge_account(&db, &did(2), Timestamp(50)).await.unwrap();
    revoked.sort();
    let jti = |space_id| Revoked { space_id, jti: "jti".to_owned() };
    assert_eq!(revoked, [jti(a), jti(b)]);
    assert!(deletion::purge_account(&db, &did(2), Timestamp(50)).await.unwrap().is_empty(), "again");
    for space in [a, b] {
        assert!(repos::state(&db, space, &did(2)).await.unwrap().is_none());
        assert_eq!(delegation::access(&db, space, &did(2)).await.unwrap(), None);
        assert!(credentials::is_revoked(&db, space, "jti").await.unwrap());
        assert!(repos::state(&db, space, &did(CREATOR)).await.unwrap().is_some());
    }
    assert!(space::get(&db, &own).await.unwrap().unwrap().deleted_at.is_some());
    let services = registrations::list(&db, a, Timestamp(2)).await.unwrap();
    assert_eq!(services.iter().map(|row| row.service.as_str()).collect::<Vec<_>>(), ["did:web:a#b"]);
    assert_eq!((count(&db, "space_records").await, count(&db, "space_invite_attempts").await), (2, 0));
    deletion::purge_account(&db, &did(CREATOR), Timestamp(60)).await.unwrap();
    assert_eq!(space::get(&db, &uri("a")).await.unwrap().unwrap().deleted_at, None, "its host stays");
    assert_eq!((count(&db, "space_invites").await, count(&db, "space_members").await), (0, 0));
}
