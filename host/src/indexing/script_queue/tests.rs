use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::*;
use crate::atproto::Tid;
use crate::indexing::early::EarlyDecision;
use crate::indexing::testing::delete;
use crate::indexing::watermark::Reach;
use crate::store::index::{AccountChange, AccountStatus, Delete, Upsert, Validity};
use crate::store::lease::Term;

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
            if event.change.uri().did.as_str().ends_with(self.blocked) {
                self.permits.acquire().await.unwrap().forget();
            }
            Some(event.change)
        })
    }

    fn decide_early(&self, _event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
        Box::pin(async { None })
    }

    fn puts_are_alike(&self, _change: &Change) -> bool {
        true
    }

    fn was_decided_early<'a>(&'a self, change: &'a Change) -> BoxFuture<'a, bool> {
        Box::pin(async move { change.uri().rkey.as_str() == "early" })
    }

    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        self.bypassed.lock().unwrap().push(event.change.uri().to_string());
        Box::pin(async move { Some(event.change) })
    }
}

fn queued(name: &str, rkey: &str) -> QueuedChange {
    let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
    QueuedChange {
        change: IndexChange::Record(delete(name, rkey, 1)),
        action: Some(RecordAction::Delete),
        ticket,
    }
}

/// A record of `bytes` bytes.
fn queued_record(name: &str, rkey: &str, bytes: usize) -> QueuedChange {
    let Change::Delete(Delete { did, collection, rkey: key, rev }) = delete(name, rkey, 1) else {
        unreachable!()
    };
    let upsert = Upsert {
        did,
        collection,
        rkey: key,
        rev,
        cid: None,
        cid_verified: false,
        record: vec![b' '; bytes].into(),
        refs: Vec::new(),
        validity: Validity::Valid,
    };
    QueuedChange { change: IndexChange::Record(Change::Upsert(upsert)), ..queued(name, rkey) }
}

fn limit(changes: usize, bytes: usize) -> Load {
    Load { changes, bytes }
}

fn set_up(max_queued: Load) -> (Arc<Slow>, Arc<ScriptQueue>, mpsc::Receiver<Message>) {
    let scripts = Arc::new(Slow { blocked: ":slow", permits: Semaphore::new(0), bypassed: Mutex::default() });
    let (writer, messages) = mpsc::channel(64);
    (Arc::clone(&scripts), ScriptQueue::with_limit(scripts, writer, max_queued), messages)
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
        [IndexChange::Record(change)] => change.uri().to_string().replace("at://did:plc:", ""),
        [IndexChange::Account(account)] => account.did.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_slow_repo_delays_only_itself_and_keeps_its_order() {
    let (scripts, script_queue, mut messages) = set_up(limit(100, 100));
    script_queue.add(vec![queued("slow", "k1")]).await;
    assert!(script_queue.has_queued(queued("slow", "x").change.did()));
    // A change of account status waits behind its repo's records.
    let account = AccountChange {
        did: queued("slow", "x").change.did().clone(),
        status: AccountStatus::Deleted,
        rev: Tid::default(),
    };
    let behind = QueuedChange { change: IndexChange::Account(account), action: None, ..queued("slow", "x") };
    script_queue.add(vec![queued("quick", "k1"), queued("slow", "k2"), behind, queued("quick", "k2")]).await;
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k1");
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k2");
    assert!(messages.try_recv().is_err());

    scripts.permits.add_permits(2);
    assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k1");
    assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k2");
    assert_eq!(next_uri(&mut messages).await, "did:plc:slow");
    script_queue.finish().await;
    assert!(!script_queue.has_queued(queued("slow", "x").change.did()));
}

#[tokio::test]
async fn a_repo_over_the_limit_bypasses_its_script() {
    let (scripts, script_queue, mut messages) = set_up(limit(3, 100));
    for rkey in ["k1", "k2", "k3"] {
        script_queue.add(vec![queued("slow", rkey)]).await;
    }
    script_queue.add(vec![queued("quick", "k1")]).await;
    assert!(scripts.bypassed.lock().unwrap().iter().all(|uri| !uri.contains("slow")));
    script_queue.add(vec![queued("slow", "early"), queued("slow", "k4")]).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(next_uri(&mut messages).await);
    }
    let bypassed = scripts.bypassed.lock().unwrap().join(" ");
    assert!(bypassed.contains("k4") && !bypassed.contains("early"), "{bypassed}");
    let slow: Vec<_> = seen.iter().filter(|uri| uri.starts_with("slow")).collect();
    let in_order = ["k1", "k2", "k3", "k4"].map(|rkey| format!("slow/app.example.note/{rkey}"));
    assert_eq!(slow, in_order.iter().collect::<Vec<_>>());
    script_queue.finish().await;
}

#[tokio::test]
async fn large_records_are_bounded_by_their_bytes() {
    let (scripts, script_queue, mut messages) = set_up(limit(100, 1_000));
    script_queue.add(vec![queued_record("slow", "k1", 600), queued_record("slow", "k2", 400)]).await;
    script_queue.add(vec![queued("quick", "k1")]).await;
    assert_eq!(next_uri(&mut messages).await, "quick/app.example.note/k1");
    assert!(scripts.bypassed.lock().unwrap().is_empty(), "no more bytes than the limit");
    script_queue.add(vec![queued_record("slow", "k3", 1)]).await;
    for rkey in ["k1", "k2", "k3"] {
        assert_eq!(next_uri(&mut messages).await, format!("slow/app.example.note/{rkey}"));
    }
    assert_eq!(scripts.bypassed.lock().unwrap().len(), 3);

    // The stream waits while the writer takes nothing, which fills its queue.
    let (_scripts, script_queue, mut messages) = set_up(limit(100, 1_000));
    let blocked = || script_queue.add(vec![queued_record("slow", "k1", 1_500)]);
    blocked().await;
    let mut full = std::pin::pin!(blocked());
    assert!(futures_util::poll!(&mut full).is_pending());
    assert_eq!(next_uri(&mut messages).await, "slow/app.example.note/k1");
    full.await;
    script_queue.finish().await;
}

#[tokio::test]
async fn changes_queued_at_shutdown_are_not_written() {
    let (_scripts, script_queue, mut messages) = set_up(limit(100, 100));
    script_queue.add(vec![queued("slow", "k1")]).await;
    script_queue.finish().await;
    assert!(messages.try_recv().is_err());
}
