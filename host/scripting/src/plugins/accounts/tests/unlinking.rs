//! Unlinking: at once here, later at the service; with the plugin; with the user's own account.

use super::fake::fault;
use super::*;
use crate::plugins::accounts::AccountError;
use crate::plugins::calls::{CallError, FaultCode};
use crate::plugins::registry::PluginStatus;

on_both!(
    an_account_is_gone_at_once_and_its_tokens_are_revoked_later,
    a_revocation_is_given_up_after_a_day,
    a_host_that_died_during_a_revocation_is_followed_by_another,
    tokens_are_revoked_after_a_refresh_that_runs,
    a_batch_leaves_room_for_other_plugins,
    a_removal_does_not_wait_for_revocations_that_were_postponed,
    a_removal_repeats_revocations_at_once,
    accounts_without_a_plugin_are_unlinked,
    a_removed_plugin_loses_all_its_accounts,
    a_user_who_is_deleted_on_the_network_is_unlinked
);

async fn an_account_is_gone_at_once_and_its_tokens_are_revoked_later(stage: Stage) {
    assert!(!stage.accounts.unlink(ALICE, "fake").await.unwrap());
    assert!(matches!(stage.accounts.unlink(ALICE, "unknown").await, Err(AccountError::UnknownPlugin(_))));
    stage.link("765").await;
    stage.link_as(&user(BOB), "766", None).await;
    stage.keep_value("account", ALICE, None).await;
    stage.keep_value("account", BOB, None).await;
    assert!(stage.accounts.unlink(ALICE, "fake").await.unwrap());
    assert!(!stage.accounts.unlink(ALICE, "fake").await.unwrap());
    assert!(stage.found().await.is_none());
    assert_eq!(stage.values().await, [format!("account {BOB}")]);
    assert_eq!(stage.events_of("unlinked").await, [json!({ "account_id": "765", "reason": "user" })]);
    assert_eq!(stage.service.count("revoke"), 0);
    // The service fails for a while. Meanwhile, the user links the account again.
    for _ in 0..2 {
        stage.service.fail("revoke", fault(FaultCode::Upstream, "try later"));
    }
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    stage.link("765").await;
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 0, "it is due in a second");
    for pause in [1, 4] {
        stage.pass(pause);
        assert_eq!(stage.other.revoke_due().await.unwrap(), 1);
    }
    let revoked: Vec<_> = stage
        .service
        .state()
        .calls
        .iter()
        .filter(|(call, _)| *call == "revoke")
        .map(|(_, token)| token.clone())
        .collect();
    assert_eq!(revoked, ["access-1", "access-1", "access-1"]);
    assert_eq!(stage.count().await, 2, "those of the users");
    assert!(stage.found().await.is_some());
}

async fn a_revocation_is_given_up_after_a_day(stage: Stage) {
    stage.link("765").await;
    stage.accounts.unlink(ALICE, "fake").await.unwrap();
    let mut attempts = 0;
    while stage.count().await > 0 {
        stage.service.fail("revoke", fault(FaultCode::Upstream, "never"));
        attempts += stage.accounts.revoke_due().await.unwrap();
        stage.pass(6 * 3600);
    }
    assert_eq!(attempts, 5, "every six hours of a day, as this clock goes");
    assert_eq!(
        stage.events_of("revocation_failed").await,
        [json!({ "account_id": "765", "error": "never" })]
    );
    // A service without such a call, or that has ended the tokens itself, is done.
    for done in [
        fault(FaultCode::Unsupported, ""),
        fault(FaultCode::NeedsReauth, ""),
        CallError::Unsupported("revoke"),
    ] {
        stage.link("765").await;
        stage.accounts.unlink(ALICE, "fake").await.unwrap();
        stage.service.fail("revoke", done);
        stage.accounts.revoke_due().await.unwrap();
        assert_eq!(stage.count().await, 0);
    }
    assert_eq!(stage.events_of("revocation_failed").await.len(), 1);
}

async fn a_host_that_died_during_a_revocation_is_followed_by_another(stage: Stage) {
    stage.link("765").await;
    stage.accounts.unlink(ALICE, "fake").await.unwrap();
    let due = external_accounts::due_revocations(&stage.db, NOW, 10, 10).await.unwrap();
    assert!(external_accounts::begin_revocation(&stage.db, &due[0], NOW.plus_seconds(120)).await.unwrap());
    assert!(!external_accounts::begin_revocation(&stage.db, &due[0], NOW.plus_seconds(120)).await.unwrap());
    assert_eq!(stage.other.revoke_due().await.unwrap(), 0);
    stage.pass(120);
    assert_eq!(stage.other.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.count().await, 0);
}

async fn tokens_are_revoked_after_a_refresh_that_runs(stage: Stage) {
    stage.link("765").await;
    let row = stage.row().await;
    let until = NOW.plus_seconds(90);
    assert!(external_accounts::lease_refresh(&stage.db, &row.id, row.version, NOW, until).await.unwrap());
    stage.accounts.unlink(ALICE, "fake").await.unwrap();
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 0);
    let new = external_accounts::NewTokens {
        access_token: &stage.accounts.seal(&row.id, "access_token", "access-new"),
        refresh_token: None,
        token_type: "Bearer",
        scope: None,
        expires_at: None,
    };
    assert!(external_accounts::refreshed(&stage.db, &row.id, row.version, &new, NOW).await.unwrap());
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.service.state().calls.last().unwrap(), &("revoke", "access-new".to_owned()));
    // A refresh that never ends delays it for its lease only.
    stage.link("765").await;
    let row = stage.row().await;
    assert!(external_accounts::lease_refresh(&stage.db, &row.id, row.version, NOW, until).await.unwrap());
    stage.accounts.unlink(ALICE, "fake").await.unwrap();
    stage.pass(90);
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
}

async fn a_batch_leaves_room_for_other_plugins(stage: Stage) {
    for did in [ALICE, BOB, "did:plc:carol"] {
        stage.link_as(&user(did), "765", None).await;
        stage.accounts.unlink(did, "fake").await.unwrap();
    }
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 2);
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.count().await, 0);
}

async fn a_removal_does_not_wait_for_revocations_that_were_postponed(stage: Stage) {
    stage.link("765").await;
    stage.accounts.unlink(ALICE, "fake").await.unwrap();
    for pause in [1, 4, 16, 64, 256, 1_024, 4_096] {
        stage.service.fail("revoke", fault(FaultCode::Upstream, "try later"));
        assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
        stage.pass(pause);
    }
    stage.service.fail("revoke", fault(FaultCode::Upstream, "try later"));
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 0, "it is due in hours");
    // An attempt that is under way when the removal begins does not postpone it either.
    let id = external_accounts::testing::any_id(&stage.db, "fake").await;
    stage.accounts.remove_all("fake").await.unwrap();
    let hours = stage.clock.now().plus_seconds(6 * 3_600);
    external_accounts::postpone_revocation(&stage.db, &id, hours).await.unwrap();
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 0);
    stage.pass(300);
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.count().await, 0);
}

async fn a_removal_repeats_revocations_at_once(stage: Stage) {
    stage.link("765").await;
    stage.accounts.unlink(ALICE, "fake").await.unwrap();
    let id = external_accounts::testing::any_id(&stage.db, "fake").await;
    let hours = stage.clock.now().plus_seconds(6 * 3_600);
    external_accounts::postpone_revocation(&stage.db, &id, hours).await.unwrap();
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 0);
    stage.accounts.remove_all("fake").await.unwrap();
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.count().await, 0);
}

async fn accounts_without_a_plugin_are_unlinked(stage: Stage) {
    stage.link("765").await;
    stage.accounts.sweep().await.unwrap();
    assert!(stage.found().await.is_some());
    external_accounts::testing::drop_plugin(&stage.db, "fake").await;
    stage.accounts.sweep().await.unwrap();
    assert!(stage.found().await.is_none());
    assert_eq!(
        stage.events_of("unlinked").await,
        [json!({ "account_id": "765", "reason": "plugin_removed" })]
    );
    stage.accounts.sweep().await.unwrap();
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.count().await, 0);
}

async fn a_removed_plugin_loses_all_its_accounts(stage: Stage) {
    stage.link("765").await;
    stage.link_as(&user(BOB), "766", None).await;
    stage.keep_value("account", BOB, None).await;
    // The plugin still revokes tokens, and nothing else.
    stage.service.state().status = PluginStatus::Removing;
    assert_eq!(stage.accounts.remove_all("fake").await.unwrap(), 2);
    assert_eq!(stage.accounts.remove_all("fake").await.unwrap(), 0);
    assert!(stage.values().await.is_empty());
    assert_eq!(stage.count().await, 2);
    stage.service.fail("revoke", fault(FaultCode::Upstream, "no"));
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 2);
    assert_eq!(stage.count().await, 1);
    // A removal waits for minutes, not for a day.
    stage.pass(301);
    stage.service.fail("revoke", fault(FaultCode::Upstream, "no"));
    assert_eq!(stage.accounts.revoke_due().await.unwrap(), 1);
    assert_eq!(stage.count().await, 0);
    let reasons: Vec<_> =
        stage.events_of("unlinked").await.iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons, ["plugin_removed", "plugin_removed"]);
}

async fn a_user_who_is_deleted_on_the_network_is_unlinked(stage: Stage) {
    // The index has none of their records: linking makes the stream report what becomes of them.
    stage.link("765").await;
    stage.link_as(&user(BOB), "766", None).await;
    stage.keep_value("account", ALICE, None).await;
    stage.accounts.sweep().await.unwrap();
    delete_on_network(&stage.db, ALICE).await;
    stage.accounts.sweep().await.unwrap();
    assert!(stage.found().await.is_none() && stage.values().await.is_empty());
    assert_eq!(
        stage.events_of("unlinked").await,
        [json!({ "account_id": "765", "reason": "account_deleted" })]
    );
    assert_eq!(stage.accounts.list(&Did::try_from(BOB).unwrap()).await.unwrap().len(), 1);
    stage.accounts.revoke_due().await.unwrap();
    assert_eq!(stage.count().await, 1);
}
