//! Linking again: the same account, another one, and by what the user types.

use super::syncing::until;
use super::*;
use crate::plugins::accounts::{AccountError, Inner};
use belvedere_storage::store::plugins;

/// A stage whose plugin links accounts by an API key.
fn by_key(mut stage: Stage) -> Stage {
    let service = Arc::new(FakeService::new("fake", "api_key"));
    let Inner { core, repos, attestation, .. } = &*stage.accounts.0;
    let (linkers, attestation) = (Arc::clone(&service) as _, Arc::clone(attestation));
    stage.accounts = Accounts::new(core.clone(), linkers, repos.clone(), attestation, true);
    stage.service = service;
    stage
}

on_both!(
    the_same_account_gets_new_tokens_and_keeps_its_row,
    another_account_replaces_the_linked_one_whose_tokens_are_revoked,
    accounts_that_are_linked_at_once_leave_one,
    nothing_is_linked_of_a_plugin_that_was_removed,
    a_removal_unlinks_what_is_linked_at_the_same_moment,
    an_account_is_linked_by_what_the_user_types
);

async fn the_same_account_gets_new_tokens_and_keeps_its_row(stage: Stage) {
    stage.link("765").await;
    let first = stage.row().await;
    stage.keep_value("account", ALICE, None).await;
    stage.pass(10);
    stage.link_as(&user(ALICE), "765", Some(&[NOTE])).await;
    let second = stage.row().await;
    assert_eq!((&second.id, second.created_at, second.version), (&first.id, first.created_at, 2));
    assert_ne!(second.access_token, first.access_token);
    assert_eq!(second.collections, [NOTE]);
    assert_eq!(stage.accounts.open(second).unwrap().tokens.access, "access-2");
    assert_eq!(stage.values().await.len(), 1);
    assert_eq!(stage.count().await, 1, "nothing is to be revoked");
}

async fn another_account_replaces_the_linked_one_whose_tokens_are_revoked(stage: Stage) {
    stage.link("765").await;
    stage.keep_value("account", ALICE, None).await;
    stage.link("766").await;
    let row = stage.row().await;
    assert_eq!((row.account_id.as_str(), row.version), ("766", 1));
    assert!(stage.values().await.is_empty());
    assert_eq!(stage.events_of("linked").await[1]["replaced"], "765");
    assert_eq!(stage.accounts.list(&Did::try_from(ALICE).unwrap()).await.unwrap().len(), 1);
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    let revoked: Vec<_> =
        stage.service.state().calls.iter().filter(|(call, _)| *call == "revoke").cloned().collect();
    assert_eq!(revoked, [("revoke", "access-1".to_owned())]);
    assert_eq!(stage.count().await, 1);
    // Another user may link the account too: the service decides who has access to it.
    stage.link_as(&user(BOB), "766", None).await;
    assert_eq!(stage.count().await, 2);
}

async fn accounts_that_are_linked_at_once_leave_one(stage: Stage) {
    let by_key = by_key(stage);
    let config = json!({ "key": "good" });
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (accounts, config) = (by_key.accounts.clone(), config.clone());
        tasks.push(tokio::spawn(async move { accounts.connect(&user(ALICE), "fake", &config, None).await }));
    }
    for task in tasks {
        let linked = task.await.unwrap();
        assert!(matches!(linked, Ok(_) | Err(AccountError::Raced)), "{linked:?}");
    }
    assert_eq!(by_key.count().await, 1);
    assert!(by_key.accounts.open(by_key.row().await).is_ok());
}

async fn nothing_is_linked_of_a_plugin_that_was_removed(stage: Stage) {
    let stage = by_key(stage);
    let config = json!({ "key": "good" });
    plugins::begin_removal(&stage.db, "fake").await.unwrap().unwrap();
    for _ in 0..2 {
        let linked = stage.accounts.connect(&user(ALICE), "fake", &config, None).await;
        assert!(matches!(linked, Err(AccountError::Removed)), "{linked:?}");
        external_accounts::testing::drop_plugin(&stage.db, "fake").await;
    }
    assert_eq!((stage.count().await, stage.service.count("revoke")), (0, 2));
}

async fn a_removal_unlinks_what_is_linked_at_the_same_moment(stage: Stage) {
    let stage = by_key(stage);
    let config = json!({ "key": "good" });
    let mut tasks = Vec::new();
    for n in 0..12 {
        let (accounts, config) = (stage.accounts.clone(), config.clone());
        let linking = user(&format!("did:plc:user{n}"));
        tasks.push(tokio::spawn(async move { accounts.connect(&linking, "fake", &config, None).await }));
    }
    until(async || stage.count().await > 0).await;
    plugins::begin_removal(&stage.db, "fake").await.unwrap().unwrap();
    stage.accounts.remove_all("fake").await.unwrap();
    for task in tasks {
        let linked = task.await.unwrap();
        assert!(matches!(linked, Ok(_) | Err(AccountError::Removed)), "{linked:?}");
    }
    while stage.accounts.revoke_due().await.unwrap() > 0 {}
    assert_eq!(stage.count().await, 0);
    assert!(plugins::finish_removal(&stage.db, "fake").await.unwrap());
}

async fn an_account_is_linked_by_what_the_user_types(stage: Stage) {
    let stage = by_key(stage);
    let connect = async |config: &Value| stage.accounts.connect(&user(ALICE), "fake", config, None).await;
    let linked = connect(&json!({ "key": "good" })).await.unwrap();
    assert_eq!((linked.account_id.as_str(), linked.display_name.as_deref()), ("765", Some("Name of 765")));
    let opened = stage.accounts.open(stage.row().await).unwrap();
    assert_eq!(opened.config, r#"{"key":"good"}"#);
    let wrong = connect(&json!({ "key": "wrong" })).await;
    assert!(matches!(&wrong, Err(AccountError::BadInput(text)) if text == "the key is wrong"), "{wrong:?}");
    for bad in [json!(null), json!("good"), json!([]), json!({ "key": "x".repeat(17_000) })] {
        assert!(matches!(connect(&bad).await, Err(AccountError::BadInput(_))));
    }
    let begun = stage.accounts.begin(&user(ALICE), "fake", "https://a.example".to_owned(), None).await;
    assert!(matches!(begun, Err(AccountError::OtherKind(_))), "{begun:?}");
    // A plugin that writes no records takes no consent to write some.
    stage.service.state().exports.sync = false;
    let config = json!({ "key": "good" });
    let named = stage.accounts.connect(&user(ALICE), "fake", &config, Some(vec![NOTE.to_owned()])).await;
    assert!(matches!(named, Err(AccountError::BadInput(_))), "{named:?}");
    connect(&config).await.unwrap();
    assert!(stage.row().await.collections.is_empty());
}
