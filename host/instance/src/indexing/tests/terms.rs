//! A host whose lease is over writes no more changes of the stream, but still writes local ones. A later lease starts
//! with new chunk numbers.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::indexing::change::IndexChange;
use crate::indexing::message::{InitialCursor, Message, Part};
use crate::indexing::testing::{FakeStore, delete};
use crate::indexing::watermark::{Reach, Ticket};
use crate::indexing::writer::{WRITER_QUEUE, WriterHandle};
use crate::indexing::{RecordAction, RecordEvent};
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_storage::store::index::{AccountChange, AccountStatus};
use belvedere_storage::store::lease::Term;

use super::start_writer;

fn part(term: i64, chunk: u64, rkey: &str) -> Message {
    let reach = Reach { events_until: Some(term * 100 + chunk as i64), ..Reach::default() };
    let ticket = Ticket { term: Term::numbered(term), chunk, parts: 1, reach };
    let event = RecordEvent { action: RecordAction::Delete, change: delete("a", rkey, 1) };
    Message::Part(Part { ticket, deferred: 0, changes: vec![IndexChange::Record(event)] })
}

fn writer(store: &Arc<FakeStore>) -> mpsc::Sender<Message> {
    let (queue, messages) = mpsc::channel(WRITER_QUEUE);
    start_writer(store.clone(), messages);
    queue
}

#[tokio::test(start_paused = true)]
async fn queued_changes_of_a_term_that_is_over_are_not_written() {
    let store = Arc::new(FakeStore::default());
    let queue = writer(&store);
    let local = WriterHandle::new(queue.clone(), Arc::default());
    queue.send(part(1, 0, "k0")).await.unwrap();
    local.submit(delete("a", "local0", 1)).await.unwrap();
    assert_eq!((store.applied_changes(), store.cursor()), (2, Some(100)));

    // Another host takes over and advances the cursor.
    store.begin_term(2);
    store.set_cursor(205);
    queue.send(part(1, 1, "k1")).await.unwrap();
    local.submit(delete("a", "local1", 1)).await.unwrap();
    queue.send(part(1, 2, "k2")).await.unwrap();
    let (ack, begun) = oneshot::channel();
    queue
        .send(Message::InitialCursor(InitialCursor { term: Term::numbered(1), cursor: 7, ack }))
        .await
        .unwrap();
    assert!(begun.await.is_err(), "no cursor is stored in a term that is over");
    local.submit(delete("a", "local2", 1)).await.unwrap();
    assert_eq!((store.applied_changes(), store.cursor()), (4, Some(205)), "only the local changes");

    // This host takes the lease again: chunks are numbered from 0 again.
    store.begin_term(3);
    queue.send(part(3, 0, "k1")).await.unwrap();
    queue.send(part(3, 1, "k2")).await.unwrap();
    local.submit(delete("a", "local3", 1)).await.unwrap();
    assert_eq!((store.applied_changes(), store.cursor()), (7, Some(301)));
}

#[tokio::test(start_paused = true)]
async fn an_accounts_status_that_is_not_the_streams_outlives_the_term() {
    let store = Arc::new(FakeStore::default());
    let queue = writer(&store);
    queue.send(part(1, 0, "k0")).await.unwrap();
    store.begin_term(2);
    let did = Did::try_from("did:plc:b").unwrap();
    let change = AccountChange { did, status: AccountStatus::Deactivated, rev: Tid::default() };
    WriterHandle::new(queue, Arc::default()).submit_account(change).await.unwrap();
    assert_eq!(store.hidden("did:plc:b"), Some(AccountStatus::Deactivated));
    assert_eq!(store.applied_changes(), 0, "the change of the term that is over is not written");
}

#[tokio::test(start_paused = true)]
async fn two_terms_never_share_a_transaction() {
    let store = Arc::new(FakeStore::default());
    store.begin_term(2);
    let queue = writer(&store);
    // Both are queued before the writer reads the first.
    queue.send(part(1, 0, "old")).await.unwrap();
    let (ack, begun) = oneshot::channel();
    queue
        .send(Message::InitialCursor(InitialCursor { term: Term::numbered(2), cursor: 200, ack }))
        .await
        .unwrap();
    begun.await.unwrap();
    assert_eq!((store.applied_changes(), store.cursor()), (0, Some(200)));
}
