//! Syncs whose PDS, session, tokens or plugin fail.

use super::fake::{SECRET, fault, item};
use super::syncing::{done, error_of, note, pages, run_sync, until, work};
use super::*;
use crate::plugins::accounts::AccountError;
use crate::plugins::calls::{CallError, Failure, FailureCause, Fault, FaultCode, Item, Page};
use crate::plugins::registry::PluginStatus;
use belvedere_storage::store::external_accounts::{AccountStatus, SyncStatus};

on_both!(
    a_sync_waits_for_a_pds_that_fails,
    a_sync_needs_a_session_of_the_user,
    tokens_are_refreshed_when_the_service_no_longer_accepts_them,
    texts_of_a_sync_show_no_secrets,
    a_plugins_failures_end_or_postpone_a_sync
);

async fn a_sync_waits_for_a_pds_that_fails(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    stage.service.pages(pages(2));
    stage.pds.refuse(503, r#"{"error":"NotNow"}"#);
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    let syncing = tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    until(async || stage.row().await.sync_error.is_some()).await;
    let row = stage.row().await;
    assert_eq!(
        (row.sync_status, row.sync_attempts, row.sync_due_at),
        (SyncStatus::Running, 1, Some(NOW.plus_seconds(1)))
    );
    stage.pds.refuse(429, r#"{"error":"RateLimitExceeded"}"#);
    stage.pass(1);
    until(async || stage.row().await.sync_due_at == Some(NOW.plus_seconds(31))).await;
    assert_eq!(stage.row().await.sync_attempts, 1, "a limited rate is no failure");
    stage.pass(30);
    assert_eq!(syncing.await.unwrap().unwrap(), done(4, 4, 0));
    assert_eq!(stage.row().await.sync_error, None);

    // A PDS that stays away ends the sync, and the next one goes on at the checkpoint.
    stage.service.pages(|cursor| match cursor {
        None => Page { items: Vec::new(), next: Some("here".to_owned()) },
        Some(_) => Page { items: vec![note(100)], next: None },
    });
    for _ in 0..10 {
        stage.pds.refuse(500, "{}");
    }
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    let syncing = tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    until(async || stage.row().await.sync_status == SyncStatus::Running).await;
    until(async || {
        // The next attempt is due at once.
        stage.clock.set(stage.clock.now().max(stage.row().await.sync_due_at.unwrap()));
        stage.accounts.0.due.notify_waiters();
        stage.row().await.sync_status == SyncStatus::Idle
    })
    .await;
    assert_eq!(syncing.await.unwrap().unwrap().error.unwrap().0, "upstream");
    assert_eq!(stage.row().await.sync_cursor.as_deref(), Some("here"));
    let before = stage.service.count("pull");
    assert_eq!(run_sync(&stage).await, done(1, 1, 0));
    assert_eq!(stage.service.count("pull"), before + 1);
    assert_eq!(stage.events_of("sync_failed").await.len(), 1);
}

async fn a_sync_needs_a_session_of_the_user(stage: Stage) {
    work(&stage);
    // The session that linked the account has ended: the caller's is used.
    let gone = AccountUser { session: "gone".into(), ..user(ALICE) };
    stage.link_as(&gone, "765", None).await;
    stage.service.pages(pages(1));
    assert_eq!(run_sync(&stage).await, done(2, 2, 0));
    assert_eq!(stage.row().await.sync_session_id.as_deref(), Some(ALICE));
    // Another API client of the user gets no use of that session: only of the one that linked the account, or its own.
    let other = AccountUser { session: "gone too".into(), ..user(ALICE) };
    let refused = stage.accounts.sync(&other, "fake").await.unwrap();
    assert_eq!(refused.error.unwrap().0, "no-session");
    assert_eq!(stage.row().await.oauth_session_id.as_deref(), Some("gone"));
    // One that ends in the middle stops the sync; so does one of another user.
    stage.service.pages(|cursor| match cursor {
        None => Page { items: Vec::new(), next: Some("here".to_owned()) },
        Some(_) => Page { items: vec![note(9)], next: None },
    });
    let id = stage.row().await.id;
    for session in ["gone", BOB] {
        external_accounts::start_sync(&stage.db, &id, session, NOW).await.unwrap().unwrap();
        until(async || stage.row().await.sync_status == SyncStatus::Idle).await;
        let error = stage.row().await.sync_error.unwrap();
        assert!(error.starts_with("no-session: "), "{error}");
    }
    for (status, body, code) in [
        (401, r#"{"error":"ExpiredToken"}"#, "no-session"),
        (403, r#"{"error":"ScopeMissingError"}"#, "out-of-scope"),
        (400, r#"{"error":"AccountDeactivated"}"#, "upstream"),
    ] {
        stage.pds.refuse(status, body);
        assert_eq!(error_of(&stage).await, code);
        assert_eq!(stage.row().await.sync_cursor.as_deref(), Some("here"));
    }
    assert_eq!(run_sync(&stage).await, done(1, 1, 0));
}

async fn tokens_are_refreshed_when_the_service_no_longer_accepts_them(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    stage.service.pages(pages(1));
    stage.service.forget_access();
    assert_eq!(run_sync(&stage).await, done(2, 2, 0));
    assert_eq!((stage.service.count("refresh"), stage.service.count("pull")), (1, 2));
    stage.service.forget_all();
    assert_eq!(error_of(&stage).await, "needs-reauth");
    assert_eq!(stage.row().await.status, AccountStatus::Expired);
    assert!(matches!(stage.accounts.sync(&user(ALICE), "fake").await, Err(AccountError::Expired)));
    // Without a refresh token there is nothing to try.
    stage.service.state().refreshable = false;
    stage.link("766").await;
    stage.service.forget_access();
    assert_eq!(error_of(&stage).await, "needs-reauth");
    assert_eq!(stage.events_of("expired").await.len(), 2);
    // New tokens that are not accepted either.
    stage.service.state().refreshable = true;
    stage.link("767").await;
    for _ in 0..2 {
        stage.service.fail("pull", fault(FaultCode::NeedsReauth, "no"));
    }
    assert_eq!(error_of(&stage).await, "needs-reauth");
}

async fn texts_of_a_sync_show_no_secrets(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    let invalid = Item { value: "7".to_owned(), ..item(NOTE, Some(SECRET), &json!({})) };
    stage.service.items(vec![invalid]);
    assert_eq!(run_sync(&stage).await, done(1, 0, 1));
    let event = stage.events_of("synced").await.pop().unwrap();
    assert!(event["note"].as_str().unwrap().starts_with("com.example.note/[secret]: "), "{event}");
    stage.service.items(vec![item(SECRET, None, &json!({}))]);
    assert_eq!(error_of(&stage).await, "forbidden");
    let event = stage.events_of("sync_failed").await.pop().unwrap();
    assert!(
        event["error"].as_str().unwrap().starts_with("forbidden: the plugin named \"[secret]\""),
        "{event}"
    );
    // The positions at which the text is cut, and at which control characters are removed.
    for before in [285, 290, 295, 299] {
        for secret in [SECRET.to_owned(), SECRET.replace('-', "-\u{1}")] {
            let name = format!("{}{secret}", "x".repeat(before));
            stage.service.items(vec![item(&name, None, &json!({}))]);
            assert_eq!(error_of(&stage).await, "forbidden");
            let event = stage.events_of("sync_failed").await.pop().unwrap();
            assert!(!event["error"].as_str().unwrap().contains(&SECRET[..2]), "{event}");
        }
    }
    // The same for what a PDS says, which may be what the plugin wrote. Once it ends the sync, once it is a note. Secrets at
    // the beginning become shorter when they are hidden, so that more of the text is shown.
    for (secrets, pads) in [(1, 250..300), (11, 140..170)] {
        for pad in pads.step_by(3) {
            let message = format!("{}{}{SECRET}", SECRET.repeat(secrets - 1), "x".repeat(pad));
            let refusal = |error| &*json!({ "error": error, "message": message }).to_string().leak();
            stage.service.items(vec![item(NOTE, Some("refused"), &json!({}))]);
            stage.pds.refuse(400, refusal("SomethingElse"));
            assert_eq!(error_of(&stage).await, "upstream");
            let event = stage.events_of("sync_failed").await.pop().unwrap();
            assert!(!event["error"].as_str().unwrap().contains(&SECRET[..2]), "{pad}: {event}");
            stage.pds.refuse(400, refusal("InvalidRecord"));
            assert_eq!(run_sync(&stage).await, done(1, 0, 1));
            let event = stage.events_of("synced").await.pop().unwrap();
            let note = event["note"].as_str().unwrap();
            assert!(note.contains("InvalidRecord") && !note.contains(&SECRET[..2]), "{pad}: {note}");
        }
    }
}

async fn a_plugins_failures_end_or_postpone_a_sync(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    for (failure, code) in [
        (fault(FaultCode::Quota, "no space"), "quota"),
        (fault(FaultCode::Forbidden, "no host"), "forbidden"),
        (fault(FaultCode::TooLarge, "a large answer"), "too-large"),
        (fault(FaultCode::BadInput, "x\0y"), "upstream"),
        (CallError::Failed(Failure::new(FailureCause::Trap, "trap")), "internal"),
        (CallError::Unsupported("sync"), "unsupported"),
    ] {
        stage.service.fail("pull", failure);
        assert_eq!(error_of(&stage).await, code);
    }
    let limited = Fault {
        code: FaultCode::RateLimited,
        message: String::new(),
        status: None,
        body: None,
        retry_after_ms: Some(90_000),
    };
    let failures = [
        fault(FaultCode::Upstream, "down"),
        fault(FaultCode::Upstream, "down"),
        CallError::Fault(limited),
        CallError::Paused,
        CallError::Busy,
    ];
    for failure in failures {
        stage.service.fail("pull", failure);
    }
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    for (pause, attempts) in [(1, 1), (2, 2), (90, 2), (60, 2), (1, 2)] {
        let due = stage.clock.now().plus_seconds(pause);
        until(async || stage.row().await.sync_due_at == Some(due)).await;
        assert_eq!(stage.row().await.sync_attempts, attempts);
        stage.clock.set(due);
    }
    until(async || stage.row().await.sync_status == SyncStatus::Idle).await;
    assert_eq!(stage.row().await.sync_error, None);
    // A plugin that is paused meanwhile.
    stage.service.state().status = PluginStatus::Paused;
    let id = stage.row().await.id;
    external_accounts::start_sync(&stage.db, &id, ALICE, stage.clock.now()).await.unwrap().unwrap();
    let due = stage.clock.now().plus_seconds(60);
    until(async || stage.row().await.sync_due_at == Some(due)).await;
    assert_eq!(stage.row().await.sync_attempts, 0);
    stage.service.state().status = PluginStatus::Active;
    stage.clock.set(due);
    until(async || stage.row().await.sync_status == SyncStatus::Idle).await;
    assert_eq!(stage.row().await.sync_error, None);
    stage.service.state().status = PluginStatus::Paused;
    assert!(matches!(stage.accounts.sync(&user(ALICE), "fake").await, Err(AccountError::Paused)));
}
