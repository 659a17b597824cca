use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::*;
use crate::indexing::early::EarlyDecision;
use crate::indexing::testing::{Recorder, delete};
use crate::indexing::watermark::Reach;
use crate::indexing::{Claim, RecordAction};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Tid;
use belvedere_storage::store::index::{AccountChange, AccountStatus, Change, CheckedRecord, Validity};
use belvedere_storage::store::lease::Term;

/// Wants every change. Decides on changes of `blocked` repos only after a permit was added, and has decided early on
/// records with the key `early`.
struct Slow {
    blocked: &'static str,
    permits: Semaphore,
    bypassed: Mutex<Vec<String>>,
}

impl RecordScriptRunner for Slow {
    fn is_idle(&self) -> bool {
        false
    }

    fn wants(&self, _action: RecordAction, _change: &Change) -> bool {
        true
    }

    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move {
            if event.change.uri.did.as_str().ends_with(self.blocked) {
                self.permits.acquire().await.unwrap().forget();
            }
            let mut change = event.change;
            if let Some(record) = &mut change.record {
                record.validity = Validity::Unchecked;
            }
            Some(change)
        })
    }

    fn decide_early(&self, _event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
        Box::pin(async { None })
    }

    fn puts_are_alike(&self, _change: &Change) -> bool {
        true
    }

    fn was_decided_early<'a>(&'a self, change: &'a Change) -> BoxFuture<'a, bool> {
        Box::pin(async move { change.uri.rkey.as_str() == "early" })
    }

    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        self.bypassed.lock().unwrap().push(event.change.uri.to_string());
        Box::pin(async move { Some(event.change) })
    }
}

const TICKET: Ticket = Ticket {
    term: Term::ALONE,
    chunk: 0,
    parts: 1,
    reach: Reach { events_until: None, commits_until: None, is_rewound: false },
};

fn did(name: &str) -> Did {
    delete(name, "k", 1).uri.did
}

fn scripted(name: &str, rkey: &str) -> Step {
    let event = RecordEvent { action: RecordAction::Delete, change: delete(name, rkey, 1) };
    Step::Checked(IndexChange::Record(event))
}

fn create<R>(name: &str, rkey: &str, record: R) -> IndexChange<R> {
    let Change { uri, rev, record: _ } = delete(name, rkey, 1);
    let change = Change { uri, rev, record: Some(record) };
    IndexChange::Record(RecordEvent { action: RecordAction::Create, change })
}

/// A record of `bytes` bytes.
fn scripted_record(name: &str, rkey: &str, bytes: usize) -> Step {
    let record = CheckedRecord {
        text: vec![b' '; bytes].into(),
        cid: None,
        cid_verified: false,
        refs: Vec::new(),
        validity: Validity::Valid,
    };
    Step::Checked(create(name, rkey, record))
}

/// A record of `bytes` bytes that is an object, or is not.
fn unchecked(name: &str, rkey: &str, bytes: usize, is_object: bool) -> Step {
    let text = if is_object { format!("{:bytes$}", "{}") } else { " ".repeat(bytes) };
    Step::Unchecked(create(name, rkey, ClaimedRecord { text: text.into(), claim: Claim::None }))
}

fn limits(changes: usize, bytes: usize) -> Limits {
    Limits {
        changes: Amount { events: changes, bytes },
        unchecked: Amount { events: 100, bytes: 1_000 },
        ..Limits::for_shards(1)
    }
}

fn set_up(limits: Limits) -> (Arc<Slow>, Arc<RepoQueues>, mpsc::Receiver<Message>) {
    let scripts = Arc::new(Slow { blocked: ":slow", permits: Semaphore::new(0), bypassed: Mutex::default() });
    let (writer, messages) = mpsc::channel(64);
    let clock = Clock::fixed(Timestamp(0));
    let checker = Arc::new(RecordChecker::new(Arc::new(Recorder::default()), Arc::default(), clock));
    let queues = RepoQueues::new(checker, Arc::clone(&scripts) as _, writer, limits);
    (scripts, queues, messages)
}

/// The next change that reaches the writer. A part without a change finishes the ticket of an event that is ignored.
async fn next_uri(messages: &mut mpsc::Receiver<Message>) -> String {
    let part = loop {
        match messages.recv().await {
            Some(Message::Part(part)) if part.changes.is_empty() => {}
            Some(Message::Part(part)) => break part,
            other => panic!("{other:?}"),
        }
    };
    match part.changes.as_slice() {
        [IndexChange::Record(RecordEvent { change, .. })] => {
            let is_unchecked = |record: &CheckedRecord| record.validity == Validity::Unchecked;
            assert!(
                !change.record.as_ref().is_some_and(is_unchecked),
                "the writer gets only what is validated"
            );
            change.uri.to_string().replace("at://did:plc:", "")
        }
        [IndexChange::Account(account)] => account.did.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_slow_repo_delays_only_itself_and_keeps_its_order() {
    let (scripts, queues, mut messages) = set_up(limits(100, 100));
    queues.add(TICKET, vec![scripted("slow", "k1")]).await;
    assert!(queues.has_queued(&did("slow")));
    // A change of account status waits behind its repo's records.
    let account = AccountChange { did: did("slow"), status: AccountStatus::Deleted, rev: Tid::default() };
    let behind = Step::Checked(IndexChange::Account(account));
    queues
        .add(TICKET, vec![scripted("quick", "k1"), scripted("slow", "k2"), behind, scripted("quick", "k2")])
        .await;
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k1");
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k2");
    assert!(messages.try_recv().is_err());

    scripts.permits.add_permits(2);
    assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k1");
    assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k2");
    assert_eq!(next_uri(&mut messages).await, "did:plc:slow");
    queues.finish().await;
    assert!(!queues.has_queued(&did("slow")));
}

#[tokio::test]
async fn a_repo_over_the_limit_bypasses_its_script() {
    let (scripts, queues, mut messages) = set_up(limits(3, 100));
    for rkey in ["k1", "k2", "k3"] {
        queues.add(TICKET, vec![scripted("slow", rkey)]).await;
    }
    queues.add(TICKET, vec![scripted("quick", "k1")]).await;
    assert!(scripts.bypassed.lock().unwrap().iter().all(|uri| !uri.contains("slow")));
    queues.add(TICKET, vec![scripted("slow", "early"), scripted("slow", "k4")]).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(next_uri(&mut messages).await);
    }
    let bypassed = scripts.bypassed.lock().unwrap().join(" ");
    assert!(bypassed.contains("k4") && !bypassed.contains("early"), "{bypassed}");
    let slow: Vec<_> = seen.iter().filter(|uri| uri.starts_with("slow")).collect();
    let in_order = ["k1", "k2", "k3", "k4"].map(|rkey| format!("slow/app.example.note/{rkey}"));
    assert_eq!(slow, in_order.iter().collect::<Vec<_>>());
    queues.finish().await;
}

#[tokio::test]
async fn large_records_are_bounded_by_their_bytes() {
    let (scripts, queues, mut messages) = set_up(limits(100, 1_000));
    queues.add(TICKET, vec![scripted_record("slow", "k1", 600), scripted_record("slow", "k2", 400)]).await;
    queues.add(TICKET, vec![scripted("quick", "k1")]).await;
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k1");
    assert!(scripts.bypassed.lock().unwrap().is_empty(), "no more bytes than the limit");
    queues.add(TICKET, vec![scripted_record("slow", "k3", 1)]).await;
    for rkey in ["k1", "k2", "k3"] {
        assert_eq!(next_uri(&mut messages).await, format!("slow/app.example.note/{rkey}"));
    }
    assert_eq!(scripts.bypassed.lock().unwrap().len(), 3);

    // The stream waits while the writer takes nothing, which fills its queue.
    let (_scripts, queues, mut messages) = set_up(limits(100, 1_000));
    let blocked = || queues.add(TICKET, vec![scripted_record("slow", "k1", 1_500)]);
    blocked().await;
    let mut full = std::pin::pin!(blocked());
    assert!(futures_util::poll!(&mut full).is_pending());
    assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k1");
    full.await;
    queues.finish().await;
}

#[tokio::test]
async fn changes_queued_at_shutdown_are_not_written() {
    let (_scripts, queues, mut messages) = set_up(limits(100, 100));
    queues.add(TICKET, vec![scripted("slow", "k1")]).await;
    queues.finish().await;
    assert!(messages.try_recv().is_err());
}

#[tokio::test]
async fn a_large_record_is_checked_while_other_repos_go_on() {
    let (_scripts, queues, mut messages) = set_up(limits(100, 100));
    let turn = queues.checks.acquire().await.unwrap();
    queues.add(TICKET, vec![unchecked("large", "k1", 300, true), scripted("large", "k2")]).await;
    assert!(queues.has_queued(&did("large")) && !queues.is_idle());
    queues.add(TICKET, vec![scripted("quick", "k1")]).await;
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k1");
    assert!(messages.try_recv().is_err());
    drop(turn);
    assert_eq!(next_uri(&mut messages).await, "large/app.example.note/k1");
    assert_eq!(next_uri(&mut messages).await, "large/app.example.note/k2");

    queues.add(TICKET, vec![unchecked("large", "k3", 300, false)]).await;
    let Some(Message::Part(part)) = messages.recv().await else { panic!() };
    assert!(part.changes.is_empty(), "a record that is refused finishes its ticket");
    queues.finish().await;
    assert!(queues.is_empty());
}

#[tokio::test]
async fn large_records_make_the_stream_wait_and_bypass_no_script() {
    let (scripts, queues, mut messages) = set_up(limits(100, 100));
    let turn = queues.checks.acquire().await.unwrap();
    queues.add(TICKET, vec![scripted("slow", "k1"), unchecked("large", "k1", 600, false)]).await;
    let full = queues.add(TICKET, vec![unchecked("large", "k2", 600, false)]);
    let mut full = std::pin::pin!(full);
    assert!(futures_util::poll!(&mut full).is_pending());
    drop(turn);
    full.await;
    assert!(scripts.bypassed.lock().unwrap().is_empty());

    // When it is checked, a record counts as any other that waits for its script.
    queues.add(TICKET, vec![unchecked("b:slow", "k1", 600, true)]).await;
    while scripts.bypassed.lock().unwrap().is_empty() {
        messages.recv().await;
    }
    assert!(scripts.bypassed.lock().unwrap()[0].contains("b:slow"));
    queues.finish().await;
}
