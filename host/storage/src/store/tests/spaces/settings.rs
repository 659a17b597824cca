use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::Policy;
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use serde_json::json;

use super::fixtures::*;
use crate::store::spaces::settings::{self as of_space, SettingsChange};
use crate::store::spaces::{delegation, deletion, follows, registrations};
use crate::store::{Patch, StoreError};

/// Texts that databases and languages treat in different ways.
const ODD: [&str; 4] = ["e\u{301}\u{1F468}\u{200D}\u{1F469}", "\u{FFFF}\u{10FFFF}", "' \" \\ % _ \n\t\r", ""];

on_both!(
    spaces_are_found_by_their_address,
    settings_change_one_by_one,
    names_may_have_any_characters,
    the_longest_addresses_are_stored_or_refused,
    spaces_of_other_hosts_are_added_once,
    a_followed_space_becomes_a_hosted_one,
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
    assert!(of_space::update(&db, id, &change, Timestamp(5)).await.unwrap().is_some());
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
    assert!(of_space::update(&db, id, &change, Timestamp(6)).await.unwrap().is_some());
    let found = space::get(&db, &uri("main")).await.unwrap().unwrap();
    let now = &found.settings;
    assert_eq!((now.display_name.as_deref(), now.description.as_deref()), (None, Some("text")));
    assert_eq!(Some(&now.read_policy), change.read_policy.as_ref());
    assert_eq!(Some(&now.write_policy), change.write_policy.as_ref());
    assert_eq!(Some(&now.app_access), change.app_access.as_ref());
    assert_eq!(Some(&now.config), change.config.as_ref());
    assert_eq!((found.created_at, found.updated_at), (Timestamp(1), Timestamp(6)));
    assert_eq!(of_space::update(&db, SpaceId(99), &change, Timestamp(6)).await.unwrap(), None);
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
    assert!(matches!(stored, Ok(Some(_)) | Err(StoreError::BadValue(_))), "{stored:?}");
}

/// Characters that do not repeat: PostgreSQL compresses the keys of an index.
fn incompressible(length: usize) -> String {
    let next = |last: &u64| Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let letter = |n: u64| char::from(b'a' + (n >> 33) as u8 % 26);
    std::iter::successors(Some(length as u64), next).skip(1).take(length).map(letter).collect()
}

/// Creates a space whose authority has a DID of a length, and writes a record of it; all other parts are as long as they may be.
async fn write_longest(db: &Db, did_length: usize, text: impl Fn(usize) -> String) -> Result<(), StoreError> {
    let kind = format!("com.{}.{}", [text(63), text(63), text(63)].join("."), text(63));
    let long = format!("at://did:plc:{}/space/{kind}/{}", text(did_length - 8), text(512));
    let uri = SpaceUri::parse(&long).unwrap();
    let id = space::create(db, &uri, &did(1), &settings(), Timestamp(1)).await?.unwrap();
    assert_eq!(space::get(db, &uri).await?.unwrap().id, id);
    let author = uri.did.clone();
    let path = path(&format!("{kind}/{}", text(512)));
    let batch = Batch {
        space: id,
        author: &author,
        writes: &[put(&path, 1)],
        swap_commit: None,
        is_writer: true,
        now: Timestamp(1),
    };
    writes::apply(db, &batch).await?.unwrap();
    assert!(records::get(db, id, &author, &path).await?.is_some());
    Ok(())
}

async fn the_longest_addresses_are_stored_or_refused(db: TestDb) {
    write_longest(&db, 2_048, |length| "a".repeat(length)).await.unwrap();
    write_longest(&db, 1_000, incompressible).await.unwrap();
    // PostgreSQL indexes no more than 2.7 KB.
    let longest = write_longest(&db, 2_048, incompressible).await;
    let is_refused = matches!(longest, Err(StoreError::BadValue(_)));
    assert_eq!((longest.is_ok(), is_refused), (matches!(*db, Db::Sqlite(_)), matches!(*db, Db::Postgres(_))));
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

/// Anyone who names an address lets it be followed.
async fn a_followed_space_becomes_a_hosted_one(db: TestDb) {
    let uri = uri("main");
    let id = space::of_other_host(&db, &uri, Timestamp(3)).await.unwrap().unwrap();
    follows::begin(&db, id, &did(3)).await.unwrap();
    let (service, now) = ("did:plc:host#atproto_space_host", Timestamp(3));
    registrations::register(&db, id, service, "https://a.example", "did:plc:c", Timestamp(99), now)
        .await
        .unwrap();
    let before = apply(&db, id, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    assert!(before.tracked.is_none());
    let made = async || space::create(&db, &uri, &did(CREATOR), &settings(), Timestamp(20)).await.unwrap();
    assert_eq!((made().await, made().await), (Some(id), None));
    let found = space::by_id(&db, id).await.unwrap().unwrap();
    assert!(found.is_hosted && found.creator == did(CREATOR) && found.settings == settings());
    assert_eq!((&found.uri, found.created_at, found.rev), (&uri, Timestamp(20), None));
    assert_eq!(delegation::access(&db, id, &did(CREATOR)).await.unwrap(), Some(WRITER));
    for table in ["space_follows", "space_followers", "space_registrations", "space_deliveries"] {
        assert_eq!(count(&db, table).await, 0, "{table}");
    }
    assert!(records::get(&db, id, &did(2), &note("a")).await.unwrap().is_some());
    assert!(apply(&db, id, 2, 30, &[put(&note("a"), 2)]).await.unwrap().tracked.is_some());
    assert_eq!(space::of_other_host(&db, &uri, Timestamp(40)).await.unwrap(), Some(id));
    assert!(space::by_id(&db, id).await.unwrap().unwrap().is_hosted);
    let gone = SpaceUri { skey: "gone".parse().unwrap(), ..uri.clone() };
    let id = space::of_other_host(&db, &gone, Timestamp(3)).await.unwrap().unwrap();
    deletion::delete(&db, id, Timestamp(4)).await.unwrap().unwrap();
    assert_eq!(space::create(&db, &gone, &did(CREATOR), &settings(), Timestamp(20)).await.unwrap(), None);
}

async fn pages_of_spaces(db: TestDb) {
    for skey in ["a", "b", "c"] {
        create(&db, skey).await;
    }
    let page = async |after, limit| space::page(&db, None, after, limit).await.unwrap();
    let first = page(None, 2).await;
    assert_eq!(first.iter().map(|row| row.uri.skey.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    create(&db, "d").await;
    let rest = page(Some(first[1].id), 9).await;
    assert_eq!(rest.iter().map(|row| row.uri.skey.as_str()).collect::<Vec<_>>(), ["c", "d"]);
    let first = &first[0];
    deletion::delete(&db, first.id, Timestamp(9)).await.unwrap();
    let of = async |did: &Did| space::page(&db, Some(did), None, 9).await.unwrap().len();
    assert_eq!((of(&first.uri.did).await, of(&did(77)).await), (3, 0));
}
