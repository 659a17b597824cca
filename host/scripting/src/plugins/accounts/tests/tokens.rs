//! Refreshing: within a minute of the expiry, once on all hosts.

use super::fake::fault;
use super::*;
use crate::plugins::accounts::AccountError;
use crate::plugins::calls::FaultCode;
use belvedere_storage::store::external_accounts::AccountStatus;

on_both!(
    tokens_are_refreshed_within_a_minute_of_their_expiry,
    many_callers_on_two_hosts_refresh_once,
    tokens_that_are_no_longer_accepted_expire_the_account,
    a_host_that_died_during_a_refresh_holds_it_for_a_while_only
);

async fn tokens_are_refreshed_within_a_minute_of_their_expiry(stage: Stage) {
    let at = NOW.plus_seconds(600);
    stage.service.state().expires_at = Some(at);
    assert!(matches!(stage.accounts.refresh(ALICE, "fake").await, Err(AccountError::NotLinked)));
    assert!(matches!(stage.accounts.refresh(ALICE, "unknown").await, Err(AccountError::UnknownPlugin(_))));
    stage.link("765").await;
    stage.pass(539);
    assert_eq!(stage.accounts.refresh(ALICE, "fake").await.unwrap(), (false, Some(at)));
    stage.pass(1);
    let later = NOW.plus_seconds(2_000);
    stage.service.state().expires_at = Some(later);
    assert_eq!(stage.accounts.refresh(ALICE, "fake").await.unwrap(), (true, Some(later)));
    assert_eq!(stage.accounts.refresh(ALICE, "fake").await.unwrap(), (false, Some(later)));
    assert_eq!(stage.service.count("refresh"), 1);
    // A service that does not rotate its refresh tokens returns none: the old one stays.
    stage.service.state().rotates = false;
    let before = stage.accounts.open(stage.row().await).unwrap().tokens.refresh;
    stage.pass(1_500);
    stage.service.state().expires_at = Some(NOW.plus_seconds(9_000));
    assert!(stage.accounts.refresh(ALICE, "fake").await.unwrap().0);
    let opened = stage.accounts.open(stage.row().await).unwrap();
    assert_eq!((opened.tokens.refresh, opened.row.version), (before, 3));
}

async fn many_callers_on_two_hosts_refresh_once(stage: Stage) {
    stage.service.state().expires_at = Some(NOW.plus_seconds(30));
    stage.link("765").await;
    stage.service.state().expires_at = Some(NOW.plus_seconds(3_000));
    let open = stage.service.hold();
    let mut tasks = Vec::new();
    for n in 0..10 {
        let accounts = if n % 2 == 0 { stage.accounts.clone() } else { stage.other.clone() };
        tasks.push(tokio::spawn(async move { accounts.refresh(ALICE, "fake").await }));
    }
    while stage.service.count("refresh") == 0 {
        tokio::task::yield_now().await;
    }
    // A caller who hangs up loses no tokens.
    tasks.swap_remove(0).abort();
    open.send_replace(true);
    for task in tasks {
        let (_, expires_at) = task.await.unwrap().unwrap();
        assert_eq!(expires_at, Some(NOW.plus_seconds(3_000)));
    }
    assert_eq!((stage.service.count("refresh"), stage.service.state().reused), (1, 0));
    assert_eq!(stage.accounts.open(stage.row().await).unwrap().tokens.access, "access-2");
}

async fn tokens_that_are_no_longer_accepted_expire_the_account(stage: Stage) {
    stage.service.state().expires_at = Some(NOW.plus_seconds(30));
    stage.link("765").await;
    stage.service.fail("refresh", fault(FaultCode::Upstream, "no"));
    let failed = stage.accounts.refresh(ALICE, "fake").await;
    assert!(matches!(failed, Err(AccountError::Call(_))), "{failed:?}");
    assert_eq!(stage.row().await.status, AccountStatus::Linked);
    stage.service.forget_all();
    for _ in 0..2 {
        assert!(matches!(stage.accounts.refresh(ALICE, "fake").await, Err(AccountError::Expired)));
    }
    assert_eq!(stage.row().await.status, AccountStatus::Expired);
    assert_eq!(stage.events_of("expired").await, [json!({ "account_id": "765" })]);
    assert_eq!(stage.service.count("refresh"), 2);
    // Linking again repairs it.
    stage.service.state().expires_at = None;
    stage.link("765").await;
    assert_eq!(stage.row().await.status, AccountStatus::Linked);
    // Tokens without a refresh token expire for good.
    stage.service.state().refreshable = false;
    stage.service.state().expires_at = Some(NOW.plus_seconds(30));
    stage.link("766").await;
    assert!(matches!(stage.accounts.refresh(ALICE, "fake").await, Err(AccountError::Expired)));
    assert_eq!(stage.service.count("refresh"), 2);
}

async fn a_host_that_died_during_a_refresh_holds_it_for_a_while_only(stage: Stage) {
    stage.service.state().expires_at = Some(NOW.plus_seconds(30));
    stage.link("765").await;
    let row = stage.row().await;
    let until = NOW.plus_seconds(90);
    assert!(external_accounts::lease_refresh(&stage.db, &row.id, row.version, NOW, until).await.unwrap());
    assert!(!external_accounts::lease_refresh(&stage.db, &row.id, row.version, NOW, until).await.unwrap());
    stage.service.state().expires_at = Some(NOW.plus_seconds(9_000));
    stage.pass(91);
    assert!(stage.accounts.refresh(ALICE, "fake").await.unwrap().0);
    // On SQLite, a restart releases it at once: there is no other host.
    stage.pass(8_900);
    let row = stage.row().await;
    let (now, until) = (stage.clock.now(), stage.clock.now().plus_seconds(90));
    assert!(external_accounts::lease_refresh(&stage.db, &row.id, row.version, now, until).await.unwrap());
    stage.accounts.prepare().await.unwrap();
    let is_sqlite = matches!(stage.db, Db::Sqlite(_));
    let taken = external_accounts::lease_refresh(&stage.db, &row.id, row.version, now, until).await;
    assert_eq!(taken.unwrap(), is_sqlite);
}
