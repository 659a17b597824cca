use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::Policy;
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use serde_json::json;

use super::fixtures::*;
use crate::store::spaces::delegation;
use crate::store::spaces::settings::{self as of_space, SettingsChange};
use crate::store::{Patch, StoreError};

/// Texts that databases and languages treat in different ways.
const ODD: [&str; 4] = ["e\u{301}\u{1F468}\u{200D}\u{1F469}", "\u{FFFF}\u{10FFFF}", "' \" \\ % _ \n\t\r", ""];

on_both!(
    spaces_are_found_by_their_address,
    settings_change_one_by_one,
    names_may_have_any_characters,
    the_longest_addresses_are_stored,
    spaces_of_other_hosts_are_added_once,
    pages_of_spaces
);

async fn spaces_are_found_by_their_address(db: TestDb) {
    let id = create(&db, "main").await;
    let found = space::get(&db, &uri("main")).await.unwrap().unwrap();
    assert_eq!((found.id, &found.uri, &found.creator), (id, &uri("main"), &did(CREATOR)));
    assert_eq!((found.is_hosted, found.rev, found.deleted_at), (true, None, None));
    assert_eq!(found.settings, settings());
    assert_eq!(delegation::access(&db, id, &did(CREATOR)).await.unwrap(), Some(WRITER));
    assert!(space::get(&db, &uri("other")).await.unwrap().is_none());
    // Keys differ in the case of letters.
    assert_ne!(create(&db, "Main").await, id);
    let again = space::create(&db, &uri("main"), &did(2), &settings(), Timestamp(9)).await.unwrap();
    assert_eq!(again, None);
    assert_eq!(delegation::access(&db, id, &did(2)).await.unwrap(), None);
}

async fn settings_change_one_by_one(db: TestDb) {
    let id = create(&db, "main").await;
    let change = SettingsChange { description: Patch::Set("text".into()), ..SettingsChange::default() };
    assert!(of_space::update(&db, id, &change, Timestamp(5)).await.unwrap());
    let config = json!({ "membership_public": true, "x": [1, null] });
    let serde_json::Value::Object(config) = config else { unreachable!("it is an object") };
    let change = SettingsChange {
        display_name: Patch::Clear,
        read_policy: Some(Policy::ManagingApp("did:web:app.example#s".parse().unwrap())),
        write_policy: Some(Policy::Public),
        app_access: Some(AppAccess::AllowList(vec!["https://app.example".into()])),
        config: Some(SpaceConfig::parse(config).unwrap()),
        ..SettingsChange::default()
    };
    assert!(of_space::update(&db, id, &change, Timestamp(6)).await.unwrap());
    let found = space::get(&db, &uri("main")).await.unwrap().unwrap();
    let now = &found.settings;
    assert_eq!((now.display_name.as_deref(), now.description.as_deref()), (None, Some("text")));
    assert_eq!(Some(&now.read_policy), change.read_policy.as_ref());
    assert_eq!(Some(&now.write_policy), change.write_policy.as_ref());
    assert_eq!(Some(&now.app_access), change.app_access.as_ref());
    assert_eq!(Some(&now.config), change.config.as_ref());
    assert_eq!((found.created_at, found.updated_at), (Timestamp(1), Timestamp(6)));
    assert!(!of_space::update(&db, SpaceId(99), &change, Timestamp(6)).await.unwrap());
}

async fn names_may_have_any_characters(db: TestDb) {
    for (n, text) in ODD.iter().enumerate() {
        let settings =
            Settings { display_name: Some((*text).into()), description: Some((*text).into()), ..settings() };
        let uri = uri(&n.to_string());
        space::create(&db, &uri, &did(1), &settings, Timestamp(1)).await.unwrap().unwrap();
        assert_eq!(space::get(&db, &uri).await.unwrap().unwrap().settings, settings);
    }
    let settings = Settings { description: Some("a\0b".into()), ..settings() };
    let stored = space::create(&db, &uri("nul"), &did(1), &settings, Timestamp(1)).await;
    assert!(matches!(stored, Ok(Some(_)) | Err(StoreError::BadValue(_))), "{stored:?}");
    let change = SettingsChange { description: Patch::Set("a\0b".into()), ..SettingsChange::default() };
    let stored = of_space::update(&db, SpaceId(1), &change, Timestamp(1)).await;
    assert!(matches!(stored, Ok(true) | Err(StoreError::BadValue(_))), "{stored:?}");
}

async fn the_longest_addresses_are_stored(db: TestDb) {
    let kind =
        format!("com.{}.{}", ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join("."), "d".repeat(63));
    let long = format!("at://did:plc:{}/space/{kind}/{}", "e".repeat(1_000), "f".repeat(512));
    let uri = SpaceUri::parse(&long).unwrap();
    let id = space::create(&db, &uri, &did(1), &settings(), Timestamp(1)).await.unwrap().unwrap();
    assert_eq!(space::get(&db, &uri).await.unwrap().unwrap().id, id);
    let author = uri.did.clone();
    let path = path(&format!("{kind}/{}", "g".repeat(512)));
    let batch = Batch {
        space: id,
        author: &author,
        writes: &[put(&path, 1)],
        swap_commit: None,
        is_writer: true,
        now: Timestamp(1),
    };
    writes::apply(&db, &batch).await.unwrap().unwrap();
    assert!(records::get(&db, id, &author, &path).await.unwrap().is_some());
}

async fn spaces_of_other_hosts_are_added_once(db: TestDb) {
    let other = SpaceUri::parse("at://did:web:other.example/space/com.example.group/x").unwrap();
    let add = async || space::of_other_host(&db, &other, Timestamp(3)).await.unwrap().unwrap();
    let added = futures_util::future::join_all((0..4).map(|_| add())).await;
    assert!(added.iter().all(|id| *id == added[0]));
    let found = space::get(&db, &other).await.unwrap().unwrap();
    assert!(!found.is_hosted && found.settings == Settings::unknown());
    assert_eq!(count(&db, "space_members").await, 0);
}

async fn pages_of_spaces(db: TestDb) {
    for skey in ["a", "b", "c"] {
        create(&db, skey).await;
    }
    let page = async |after, limit| space::page(&db, after, limit).await.unwrap();
    let first = page(None, 2).await;
    assert_eq!(first.iter().map(|row| row.uri.skey.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    create(&db, "d").await;
    let rest = page(Some(first[1].id), 9).await;
    assert_eq!(rest.iter().map(|row| row.uri.skey.as_str()).collect::<Vec<_>>(), ["c", "d"]);
}
