//! API clients: conflicts, three-state updates, cascades.

use crate::store::api_clients::{self, ApiClientPatch, ApiClientRow, Caps, Created};
use crate::store::revocations::Window;
use crate::store::testing::TestDb;
use crate::store::{Db, Patch, StoreError};
use belvedere_base::clock::Timestamp;

fn client(n: i64, parent: Option<&str>) -> ApiClientRow {
    ApiClientRow {
        id: format!("c{n}"),
        client_key: format!("bvc_{n}"),
        client_secret_hash: Some("hash".into()),
        name: "App \"quoted\"".into(),
        client_id_url: format!("https://app{n}.example/client.json"),
        client_uri: "https://app.example".into(),
        redirect_uris: vec!["https://app.example/a,b".into(), "https://app.example/c".into()],
        client_type: "confidential".into(),
        scopes: "atproto".into(),
        allowed_origins: vec![],
        rate_limit_capacity: Some(7),
        rate_limit_refill_rate: Some(0.5),
        is_active: true,
        created_by: "did:plc:admin".into(),
        parent_client_id: parent.map(str::to_owned),
        owner_did: parent.map(|_| "did:plc:owner".to_owned()),
        created_at: Timestamp(n),
        updated_at: Timestamp(n),
        last_used_at: None,
    }
}

const WINDOW: Window = Window { due_at: Timestamp(1), give_up_at: Timestamp(2) };

const CAPS: Caps = Caps { all: 100, of_parent: 100, of_owner: 100 };

async fn create(db: &Db, row: &ApiClientRow) {
    assert_eq!(api_clients::create(db, row, &CAPS).await.unwrap(), Created::Done);
}

/// A client `c1` with two children, and a client `c4`.
pub(super) async fn family(db: &Db) {
    for row in [client(1, None), client(2, Some("c1")), client(3, Some("c1")), client(4, None)] {
        create(db, &row).await;
    }
}

fn ids(rows: Vec<ApiClientRow>) -> Vec<String> {
    rows.into_iter().map(|row| row.id).collect()
}

on_both!(
    come_back_as_stored,
    the_last_use_is_kept_by_changes,
    lists,
    the_metadata_url_is_unique,
    their_number_is_bounded_in_all_by_parent_and_by_owner,
    only_the_given_fields_change,
    deactivation_reaches_the_children_and_activation_does_not,
    deletion_deletes_the_children
);

async fn come_back_as_stored(db: TestDb) {
    let public = ApiClientRow {
        client_secret_hash: None,
        client_type: "public".into(),
        allowed_origins: vec!["https://app.example".into()],
        rate_limit_capacity: None,
        rate_limit_refill_rate: None,
        ..client(2, None)
    };
    for row in [client(1, None), public] {
        create(&db, &row).await;
        assert_eq!(api_clients::get(&db, &row.id).await.unwrap().as_ref(), Some(&row));
        assert_eq!(api_clients::get(&db, &row.id).await.unwrap(), Some(row));
    }
    assert_eq!(api_clients::get(&db, "nobody").await.unwrap(), None);
}

async fn the_last_use_is_kept_by_changes(db: TestDb) {
    create(&db, &client(1, None)).await;
    api_clients::touch(&db, "c1", Timestamp(50)).await.unwrap();
    let patch = ApiClientPatch { name: Some("New".into()), ..ApiClientPatch::default() };
    let changed = api_clients::update(&db, "c1", &patch, Timestamp(60)).await.unwrap().unwrap();
    assert_eq!((changed.last_used_at, changed.updated_at), (Some(Timestamp(50)), Timestamp(60)));
}

async fn lists(db: TestDb) {
    family(&db).await;
    assert_eq!(ids(api_clients::list(&db, None).await.unwrap()), ["c4", "c3", "c2", "c1"]);
    assert_eq!(ids(api_clients::list(&db, Some("c1")).await.unwrap()), ["c3", "c2"]);
    assert_eq!(ids(api_clients::list(&db, Some("c4")).await.unwrap()), Vec::<String>::new());
    assert_eq!(ids(api_clients::list_owned(&db, "did:plc:owner").await.unwrap()), ["c3", "c2"]);
}

async fn the_metadata_url_is_unique(db: TestDb) {
    family(&db).await;
    let twin = ApiClientRow { id: "x".into(), client_key: "bvc_x".into(), ..client(1, None) };
    assert!(matches!(api_clients::create(&db, &twin, &CAPS).await, Err(StoreError::Conflict(_))));
}

async fn their_number_is_bounded_in_all_by_parent_and_by_owner(db: TestDb) {
    family(&db).await;
    let owned = |n, parent: &str, owner: &str| ApiClientRow {
        owner_did: Some(owner.to_owned()),
        ..client(n, Some(parent))
    };
    for (row, caps, created) in [
        (owned(5, "c1", "did:plc:owner"), Caps { of_owner: 2, ..CAPS }, Created::OwnerFull),
        (owned(5, "c4", "did:plc:owner"), Caps { of_owner: 2, ..CAPS }, Created::OwnerFull),
        (owned(5, "c1", "did:plc:other"), Caps { of_parent: 2, ..CAPS }, Created::ParentFull),
        (owned(5, "c4", "did:plc:other"), Caps { all: 4, ..CAPS }, Created::Full),
        (client(5, None), Caps { all: 4, ..CAPS }, Created::Full),
        (owned(5, "c4", "did:plc:other"), Caps { all: 5, of_parent: 1, of_owner: 1 }, Created::Done),
        // Clients without parent and owner count only for the total limit.
        (client(6, None), Caps { all: 6, of_parent: 1, of_owner: 1 }, Created::Done),
    ] {
        assert_eq!(api_clients::create(&db, &row, &caps).await.unwrap(), created, "{caps:?}");
    }
}

async fn only_the_given_fields_change(db: TestDb) {
    family(&db).await;
    let before = client(1, None);
    let update = async |patch| api_clients::update(&db, "c1", &patch, Timestamp(99)).await.unwrap().unwrap();
    let kept = update(ApiClientPatch::default()).await;
    assert_eq!(kept, ApiClientRow { updated_at: Timestamp(99), ..before.clone() });
    let changed = update(ApiClientPatch {
        name: Some("New".into()),
        redirect_uris: Some(vec![]),
        allowed_origins: Patch::Set(vec!["https://o.example".into()]),
        rate_limit_capacity: Patch::Clear,
        rate_limit_refill_rate: Patch::Set(2.0),
        ..ApiClientPatch::default()
    })
    .await;
    assert_eq!(
        changed,
        ApiClientRow {
            name: "New".into(),
            redirect_uris: vec![],
            allowed_origins: vec!["https://o.example".into()],
            rate_limit_capacity: None,
            rate_limit_refill_rate: Some(2.0),
            updated_at: Timestamp(99),
            ..before
        }
    );
    let cleared = update(ApiClientPatch { allowed_origins: Patch::Clear, ..ApiClientPatch::default() }).await;
    assert_eq!(cleared.allowed_origins, Vec::<String>::new());
    let none = api_clients::update(&db, "nobody", &ApiClientPatch::default(), Timestamp(1)).await.unwrap();
    assert_eq!(none, None);
}

async fn deactivation_reaches_the_children_and_activation_does_not(db: TestDb) {
    family(&db).await;
    let active = async |id| api_clients::get(&db, id).await.unwrap().unwrap().is_active;
    let set = async |is_active| {
        let patch = ApiClientPatch { is_active: Some(is_active), ..ApiClientPatch::default() };
        api_clients::update(&db, "c1", &patch, Timestamp(9)).await.unwrap().unwrap()
    };
    assert!(!set(false).await.is_active);
    assert_eq!((active("c2").await, active("c3").await, active("c4").await), (false, false, true));
    assert!(set(true).await.is_active);
    assert_eq!((active("c2").await, active("c3").await), (false, false));
}

async fn deletion_deletes_the_children(db: TestDb) {
    family(&db).await;
    let mut keys = api_clients::delete(&db, "c1", WINDOW).await.unwrap();
    keys.sort();
    assert_eq!(keys, ["bvc_1", "bvc_2", "bvc_3"]);
    assert_eq!(ids(api_clients::list(&db, None).await.unwrap()), ["c4"]);
    assert!(api_clients::delete(&db, "c1", WINDOW).await.unwrap().is_empty());
}
