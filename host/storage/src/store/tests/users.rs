//! Users, their permissions, and their keys.

use crate::store::api_keys::{self, NewApiKey};
use crate::store::testing::TestDb;
use crate::store::users::{self, Deletion, UserRow};
use crate::store::{Db, StoreError};
use belvedere_base::clock::Timestamp;

const NOW: Timestamp = Timestamp(1_000);

async fn bootstrap(db: &Db, n: u32) -> bool {
    let permissions = ["users:read", "lexicons:read"];
    users::bootstrap(db, &format!("id{n}"), &format!("did:plc:{n}"), &permissions, NOW).await.unwrap()
}

async fn key(db: &Db, id: &str, user: &str, hash: &str) -> Result<api_keys::ApiKeyRow, StoreError> {
    let key = NewApiKey {
        id,
        user_id: user,
        name: "a key",
        key_prefix: "bva_12345678",
        key_hash: hash,
        permissions: &["users:read"],
    };
    api_keys::create(db, &key, NOW).await
}

/// Deletes a user whatever it may do.
async fn delete(db: &Db, id: &str, now: Timestamp) -> Deletion<()> {
    users::delete(db, id, now, |_| Ok(())).await.unwrap()
}

on_both!(
    of_concurrent_first_users_one_is_super,
    users_are_created_changed_and_deleted,
    keys_of_a_deleted_user_stop_working,
    a_user_is_deleted_with_the_permissions_that_were_checked,
    there_is_always_one_super_user,
    keys
);

async fn of_concurrent_first_users_one_is_super(db: TestDb) {
    let mut tasks = Vec::new();
    for n in 0..8 {
        let db = Db::clone(&db);
        tasks.push(tokio::spawn(async move { bootstrap(&db, n).await }));
    }
    let mut won = 0;
    for task in tasks {
        won += usize::from(task.await.unwrap());
    }
    assert_eq!(won, 1);
    let users = users::list(&db).await.unwrap();
    assert_eq!(users.len(), 1);
    assert!(users[0].is_super);
    assert_eq!(users[0].permissions, ["lexicons:read", "users:read"]);
    assert!(!bootstrap(&db, 99).await);
}

async fn users_are_created_changed_and_deleted(db: TestDb) {
    assert!(bootstrap(&db, 0).await);
    let user = users::create(&db, "u1", "did:plc:u1", &["b:x", "a:x", "a:x"], NOW).await.unwrap();
    assert_eq!(
        (user.is_super, user.permissions.as_slice()),
        (false, ["a:x".into(), "b:x".into()].as_slice())
    );
    assert_eq!(users::get(&db, "u1").await.unwrap().unwrap(), user);
    assert_eq!(users::get_by_did(&db, "did:plc:u1").await.unwrap().unwrap(), user);
    assert!(matches!(users::create(&db, "u2", "did:plc:u1", &[], NOW).await, Err(StoreError::Conflict(_))));
    assert!(users::get(&db, "u2").await.unwrap().is_none());
    let among = async |dids: &[&str]| users::among(&db, dids).await.unwrap();
    assert_eq!(among(&["did:plc:none", "did:plc:u1"]).await, ["did:plc:u1"]);
    assert!(among(&[]).await.is_empty() && among(&["did:plc:none", "'"]).await.is_empty());

    let changed = users::set_permissions(&db, "u1", &["c:x", "a:x"], &["b:x", "z:x"]).await.unwrap().unwrap();
    assert_eq!(changed.permissions, ["a:x", "c:x"]);
    assert!(users::set_permissions(&db, "id0", &["c:x"], &[]).await.unwrap().is_none(), "the super user");
    assert!(users::set_permissions(&db, "nobody", &["c:x"], &[]).await.unwrap().is_none());

    users::touch(&db, "u1", Timestamp(5_000)).await.unwrap();
    assert_eq!(users::get(&db, "u1").await.unwrap().unwrap().last_used_at, Some(Timestamp(5_000)));
    let ids: Vec<_> = users::list(&db).await.unwrap().into_iter().map(|u| u.id).collect();
    assert_eq!(ids, ["id0", "u1"]);
}

async fn keys_of_a_deleted_user_stop_working(db: TestDb) {
    assert!(bootstrap(&db, 0).await);
    users::create(&db, "u1", "did:plc:u1", &["a:x"], NOW).await.unwrap();
    key(&db, "k1", "u1", "hash1").await.unwrap();
    key(&db, "k0", "id0", "hash0").await.unwrap();
    assert_eq!(delete(&db, "u1", Timestamp(2_000)).await, Deletion::Deleted(Vec::new()));
    assert!(users::get(&db, "u1").await.unwrap().is_none());
    assert!(api_keys::find_by_hash(&db, "hash1").await.unwrap().is_none());
    assert_eq!(api_keys::list_of(&db, "u1").await.unwrap()[0].revoked_at, Some(Timestamp(2_000)));
    assert!(api_keys::find_by_hash(&db, "hash0").await.unwrap().is_some());
    assert_eq!(delete(&db, "u1", NOW).await, Deletion::Missing);
    assert_eq!(delete(&db, "id0", NOW).await, Deletion::Super);
    assert!(users::get(&db, "id0").await.unwrap().is_some());
    // The DID can be added again, with none of its old permissions.
    let again = users::create(&db, "u2", "did:plc:u1", &[], NOW).await.unwrap();
    assert!(again.permissions.is_empty());
}

async fn a_user_is_deleted_with_the_permissions_that_were_checked(db: TestDb) {
    assert!(bootstrap(&db, 0).await);
    for round in 0..50 {
        let id = format!("u{round}");
        users::create(&db, &id, &format!("did:plc:{id}"), &["a:x"], NOW).await.unwrap();
        let only_a = |user: &UserRow| if user.permissions == ["a:x"] { Ok(()) } else { Err(user.clone()) };
        let grants = tokio::spawn({
            let (db, id) = (Db::clone(&db), id.clone());
            async move { users::set_permissions(&db, &id, &["b:x"], &[]).await.unwrap() }
        });
        let deletion = users::delete(&db, &id, NOW, only_a).await.unwrap();
        let granted = grants.await.unwrap();
        match deletion {
            Deletion::Deleted(_) => assert_eq!(granted, None, "round {round}: granted while it was deleted"),
            Deletion::Refused(user) => assert_eq!(Some(user), granted, "round {round}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(users::get(&db, &id).await.unwrap(), granted);
    }
}

async fn there_is_always_one_super_user(db: TestDb) {
    assert!(bootstrap(&db, 0).await);
    users::create(&db, "u1", "did:plc:u1", &[], NOW).await.unwrap();
    assert!(!users::transfer_super(&db, "u1", "id0").await.unwrap(), "not from one who is not super");
    assert!(!users::transfer_super(&db, "id0", "nobody").await.unwrap());
    assert!(users::get(&db, "id0").await.unwrap().unwrap().is_super);
    assert!(users::transfer_super(&db, "id0", "u1").await.unwrap());
    let supers: Vec<_> =
        users::list(&db).await.unwrap().into_iter().filter(|u| u.is_super).map(|u| u.id).collect();
    assert_eq!(supers, ["u1"]);
}

async fn keys(db: TestDb) {
    assert!(bootstrap(&db, 0).await);
    let made = key(&db, "k1", "id0", "hash1").await.unwrap();
    assert!(matches!(key(&db, "k2", "id0", "hash1").await, Err(StoreError::Conflict(_))));
    let (found, user) = api_keys::find_by_hash(&db, "hash1").await.unwrap().unwrap();
    assert_eq!((found, user.id.as_str()), (made, "id0"));
    assert!(api_keys::find_by_hash(&db, "other").await.unwrap().is_none());

    api_keys::touch(&db, "k1", Timestamp(3_000)).await.unwrap();
    assert!(!api_keys::revoke(&db, "k1", "another", NOW).await.unwrap());
    assert!(api_keys::revoke(&db, "k1", "id0", Timestamp(4_000)).await.unwrap());
    assert!(!api_keys::revoke(&db, "k1", "id0", NOW).await.unwrap());
    assert!(api_keys::find_by_hash(&db, "hash1").await.unwrap().is_none());
    let listed = api_keys::list_of(&db, "id0").await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].last_used_at, listed[0].revoked_at),
        (Some(Timestamp(3_000)), Some(Timestamp(4_000)))
    );
}
