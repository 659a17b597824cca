//! Turns of syncs: how long they take, who is next, and what a crash or a new consent means for them.

use futures_util::FutureExt as _;

use super::fake::item;
use super::syncing::{note, until, work, written};
use super::*;
use crate::plugins::accounts::sync::turn;
use crate::plugins::calls::{CallError, Failure, FailureCause, Item, Page};
use belvedere_storage::store::external_accounts::SyncStatus;

const RUNNING: SyncStatus = SyncStatus::Running;

fn loose(n: usize) -> Item {
    item(LOOSE, Some(&format!("l{n}")), &json!({ "n": n }))
}

/// Starts the sync of Alice's account, which no worker takes. Returns the account's id.
async fn start(stage: &Stage) -> String {
    let id = stage.row().await.id;
    external_accounts::start_sync(&stage.db, &id, ALICE, stage.clock.now()).await.unwrap().unwrap();
    id
}

async fn take(stage: &Stage, id: &str) -> AccountRow {
    let (now, until) = (stage.clock.now(), stage.clock.now().plus_seconds(20));
    external_accounts::take_sync(&stage.db, id, "host", now, until).await.unwrap().unwrap()
}

/// Lets a page take longer than a turn may, so that each turn writes one record.
fn slow(stage: &Stage, items: Vec<Item>) {
    let clock = stage.clock.clone();
    stage.service.pages(move |_| {
        clock.set(clock.now().plus_seconds(turn::TURN_SECONDS));
        Page { items: items.clone(), next: None }
    });
}

on_both!(
    a_page_that_takes_long_is_written_in_several_turns,
    a_page_without_progress_ends_the_sync,
    many_syncs_of_a_plugin_or_a_tenant_hide_no_others,
    a_page_that_kills_the_server_is_not_read_for_ever,
    a_page_that_traps_ends_the_sync_at_its_checkpoint,
    a_new_consent_ends_the_turn_and_the_sync_goes_on_with_it,
    a_sync_that_goes_on_after_days_waits_as_a_new_one_does
);

async fn a_page_that_takes_long_is_written_in_several_turns(stage: Stage) {
    stage.link("765").await;
    slow(&stage, vec![note(1), note(2), loose(3), loose(4)]);
    let id = start(&stage).await;
    let other = NOW.plus_seconds(1);
    external_accounts::testing::copy_as_due(&stage.db, &id, "other", "fake2", "app", other).await;
    for done in 1..4 {
        let row = take(&stage, &id).await;
        turn::run(&stage.accounts, row, "host").await;
        let row = stage.row().await;
        assert_eq!((row.sync_status, row.sync_reached, row.sync_attempts), (RUNNING, done, 0));
        let due = external_accounts::due_syncs(&stage.db, stage.clock.now(), 10, 10, 10).await.unwrap();
        let ids: Vec<_> = due.iter().map(|due| due.id.as_str()).collect();
        assert_eq!(ids, ["other", id.as_str()], "another account is next");
    }
    let row = take(&stage, &id).await;
    turn::run(&stage.accounts, row, "host").await;
    let row = stage.row().await;
    assert_eq!((row.sync_status, row.sync_reached), (SyncStatus::Idle, 0));
    assert_eq!((row.sync_processed, row.sync_written, row.sync_skipped), (4, 4, 0));
    assert_eq!(written(&stage), ["n1", "n2", "l3", "l4"], "each once, also those that are not indexed");
}

async fn a_page_without_progress_ends_the_sync(stage: Stage) {
    stage.link("765").await;
    slow(&stage, vec![note(1), note(2)]);
    let id = start(&stage).await;
    for turns in 0..11 {
        assert_eq!(stage.row().await.sync_status, RUNNING, "after {turns} turns");
        stage.pds.refuse(400, r#"{"error":"InvalidRequest","message":"no"}"#);
        let row = take(&stage, &id).await;
        turn::run(&stage.accounts, row, "host").await;
    }
    let row = stage.row().await;
    assert_eq!(row.sync_status, SyncStatus::Idle);
    assert!(row.sync_error.as_deref().unwrap().starts_with("timed-out: "), "{row:?}");
}

async fn many_syncs_of_a_plugin_or_a_tenant_hide_no_others(stage: Stage) {
    stage.link("765").await;
    let id = stage.row().await.id;
    let add = async |user: String, plugin: &str, tenant: &str, second: i64| {
        let at = NOW.plus_seconds(second);
        external_accounts::testing::copy_as_due(&stage.db, &id, &user, plugin, tenant, at).await;
    };
    for n in 0..40 {
        add(format!("slow-{n}"), "slow", &format!("tenant-{}", n / 3), n).await;
    }
    for n in 0..20 {
        add(format!("many-{n}"), "shared", if n % 2 == 0 { "first" } else { "second" }, 100 + n).await;
    }
    add("third".to_owned(), "shared", "third", 200).await;
    add("quick".to_owned(), "quick", "fourth", 300).await;
    let due = external_accounts::due_syncs(&stage.db, NOW.plus_seconds(400), 64, 3, 9).await.unwrap();
    let of = |plugin: &str| due.iter().filter(|due| due.plugin_id == plugin).count();
    assert_eq!((of("slow"), of("shared"), of("quick")), (9, 7, 1), "{due:?}");
    assert_eq!(due.last().unwrap().id, "quick", "the longest due first");
    assert!(due.iter().any(|due| due.id == "third"));
}

async fn a_page_that_kills_the_server_is_not_read_for_ever(stage: Stage) {
    stage.link("765").await;
    let id = start(&stage).await;
    for killed in 1..=10 {
        assert_eq!(take(&stage, &id).await.sync_attempts, killed);
        stage.pass(21);
    }
    let row = take(&stage, &id).await;
    turn::run(&stage.accounts, row, "host").await;
    let row = stage.row().await;
    assert_eq!(row.sync_status, SyncStatus::Idle);
    assert!(row.sync_error.as_deref().unwrap().starts_with("internal: the server has ended"), "{row:?}");
    assert_eq!(stage.service.count("pull"), 0);
}

async fn a_page_that_traps_ends_the_sync_at_its_checkpoint(stage: Stage) {
    stage.link("765").await;
    stage.service.pages(|cursor| match cursor {
        None => Page { items: vec![note(1)], next: Some("1".to_owned()) },
        Some(_) => Page { items: vec![note(2)], next: None },
    });
    let id = start(&stage).await;
    for is_trap in [false, true] {
        if is_trap {
            stage.service.fail("pull", CallError::Failed(Failure::new(FailureCause::Trap, "trap")));
        }
        let row = take(&stage, &id).await;
        turn::run(&stage.accounts, row, "host").await;
    }
    let row = stage.row().await;
    assert_eq!((row.sync_status, row.sync_cursor.as_deref()), (SyncStatus::Idle, Some("1")));
    assert_eq!(row.sync_error.as_deref(), Some("internal: the plugin failed: it trapped"));
}

async fn a_new_consent_ends_the_turn_and_the_sync_goes_on_with_it(stage: Stage) {
    stage.link("765").await;
    let id = start(&stage).await;
    take(&stage, &id).await;
    let ended = stage.accounts.0.unlinked.notified();
    stage.link_as(&user(ALICE), "765", Some(&[NOTE])).await;
    assert!(ended.now_or_never().is_some(), "the turn notices at once");
    let until = stage.clock.now().plus_seconds(20);
    assert!(!external_accounts::extend_sync(&stage.db, &id, "host", until).await.unwrap());
    let row = take(&stage, &id).await;
    assert_eq!((row.sync_status, row.sync_attempts, &*row.collections), (RUNNING, 1, &[NOTE.to_owned()][..]));
}

async fn a_sync_that_goes_on_after_days_waits_as_a_new_one_does(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    stage.service.pages(|cursor| match cursor {
        None => Page { items: Vec::new(), next: Some("here".to_owned()) },
        Some(_) => Page { items: vec![note(1)], next: None },
    });
    stage.pds.refuse(401, r#"{"error":"ExpiredToken"}"#);
    let first = stage.accounts.sync(&user(ALICE), "fake").await.unwrap();
    assert_eq!(first.error.unwrap().0, "no-session");
    stage.pass(3 * 86_400);
    stage.pds.refuse(503, "{}");
    start(&stage).await;
    stage.accounts.0.due.notify_waiters();
    let later = stage.clock.now().plus_seconds(1);
    until(async || stage.row().await.sync_due_at == Some(later)).await;
    let row = stage.row().await;
    assert_eq!((row.sync_status, row.sync_cursor.as_deref()), (RUNNING, Some("here")));
    assert_eq!(row.sync_started_at, Some(NOW), "of which keys are made");
    stage.pass(1);
    until(async || stage.row().await.sync_status == SyncStatus::Idle).await;
    assert_eq!(stage.row().await.sync_error, None);
}
