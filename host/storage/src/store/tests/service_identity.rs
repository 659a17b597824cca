//! The instance's identity, its services and its keys.

use crate::store::service_identity::IdentityRow;
use crate::store::testing::TestDb;
use crate::store::verification_methods::MethodRow;
use crate::store::{StoreError, service_entries, service_identity, verification_methods};
use belvedere_base::clock::Timestamp;

fn identity(mode: &str, created_at: i64) -> IdentityRow {
    IdentityRow {
        mode: mode.to_owned(),
        did: None,
        signing_key: Some(vec![1]),
        rotation_key: None,
        attached_account_did: Some("did:plc:a".to_owned()),
        attached_session_id: None,
        setup_complete: false,
        created_at: Timestamp(created_at),
        updated_at: Timestamp(created_at),
    }
}

on_both!(there_is_one_identity, entries_have_bounds, a_deleted_method_is_remembered_without_its_key);

async fn there_is_one_identity(db: TestDb) {
    assert!(service_identity::get(&db).await.unwrap().is_none());
    assert!(!service_identity::complete(&db, Timestamp(1)).await.unwrap());
    let first = Some(("#a", "A"));
    service_identity::put(&db, &identity("did_web", 1), first).await.unwrap();
    // Only with the first identity, and only without entries.
    service_entries::delete(&db, service_entries::list(&db).await.unwrap()[0].id).await.unwrap();
    service_identity::put(&db, &identity("attach_account", 2), first).await.unwrap();
    assert!(service_entries::list(&db).await.unwrap().is_empty());
    assert!(service_identity::set_did(&db, "did:plc:a", Timestamp(3)).await.unwrap());
    assert!(!service_identity::set_did(&db, "did:plc:b", Timestamp(4)).await.unwrap(), "it has one");
    assert!(service_identity::set_session(&db, "did:plc:a", "s").await.unwrap());
    assert!(!service_identity::set_session(&db, "did:plc:b", "s").await.unwrap());
    assert!(service_identity::complete(&db, Timestamp(5)).await.unwrap());
    let row = service_identity::get(&db).await.unwrap().unwrap();
    assert_eq!(
        (row.mode.as_str(), row.did.as_deref(), row.created_at, row.updated_at),
        ("attach_account", Some("did:plc:a"), Timestamp(1), Timestamp(5))
    );
    assert_eq!((row.attached_session_id.as_deref(), row.setup_complete), (Some("s"), true));
}

async fn entries_have_bounds(db: TestDb) {
    let create = async |fragment: &str| service_entries::create(&db, (fragment, "T"), 2, Timestamp(1)).await;
    let one = create("#one").await.unwrap().unwrap();
    assert!(matches!(create("#one").await, Err(StoreError::Conflict(_))));
    assert!(create("#two").await.unwrap().is_some() && create("#three").await.unwrap().is_none());
    let bind = async |nsids: &[&str]| {
        let nsids: Vec<String> = nsids.iter().map(|&nsid| nsid.to_owned()).collect();
        service_entries::bind_xrpcs(&db, one.id, &nsids, 2).await.unwrap()
    };
    assert_eq!((bind(&["a.b.c"]).await, bind(&["a.b.c", "a.b.d"]).await), (Some(true), Some(true)));
    assert_eq!(bind(&["a.b.e"]).await, Some(false));
    assert_eq!(service_entries::xrpcs(&db, one.id).await.unwrap(), ["a.b.c", "a.b.d"], "nothing was added");
    assert!(service_entries::delete(&db, one.id).await.unwrap());
    assert!(service_entries::all_xrpcs(&db).await.unwrap().is_empty());
}

async fn a_deleted_method_is_remembered_without_its_key(db: TestDb) {
    let method = |id: &str| MethodRow {
        id: id.to_owned(),
        fragment_id: "#a".to_owned(),
        public_key_multibase: format!("z{id}"),
        sealed: Some(vec![7]),
        created_at: Timestamp(1),
        deleted_at: None,
    };
    assert!(verification_methods::create(&db, &method("1"), 1).await.unwrap());
    assert!(!verification_methods::create(&db, &method("2"), 1).await.unwrap());
    assert!(matches!(verification_methods::create(&db, &method("2"), 2).await, Err(StoreError::Conflict(_))));
    assert!(verification_methods::delete(&db, "#a", Timestamp(5)).await.unwrap());
    assert!(!verification_methods::delete(&db, "#a", Timestamp(6)).await.unwrap());
    assert!(verification_methods::create(&db, &method("2"), 1).await.unwrap());
    let rows = verification_methods::list(&db).await.unwrap();
    assert_eq!((rows[0].sealed.as_ref(), rows[0].deleted_at), (None, Some(Timestamp(5))));
    verification_methods::forget_deleted(&db, Timestamp(4)).await.unwrap();
    assert_eq!(verification_methods::list(&db).await.unwrap().len(), 2);
    verification_methods::forget_deleted(&db, Timestamp(5)).await.unwrap();
    let rows = verification_methods::list(&db).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["2"]);
}
