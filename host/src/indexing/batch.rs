//! Gathers items into one transaction.

use tokio::sync::oneshot;

use crate::atproto::Did;
use crate::clock::Timestamp;
use crate::store::index::{AccountChange, AccountStatus, Batch, Change, StreamCursor};
use crate::store::lease::Term;

use super::apply::Item;
use super::watermark::{Ticket, Watermark};
use super::writer::Part;

/// Changes after which a batch is committed without waiting. The rows of a batch share the index pages they touch:
/// on SQLite 8,000 cost half as much per row as 2,000. More would keep local writes waiting for a tenth of a second.
const BATCH_CHANGES: usize = 8_000;

/// The same in bytes of records.
const BATCH_BYTES: usize = 8 << 20;

/// A batch being gathered, with what becomes true when it is committed.
#[derive(Default)]
pub(super) struct Pending {
    pub batch: Batch,
    pub acks: Vec<oneshot::Sender<()>>,
    /// The changes among those of the batch that are not the stream's.
    pub local: Vec<Change>,
    /// The term of all that is the stream's.
    pub term: Option<Term>,
    /// The cursor to store when the stream has none.
    pub begin: Option<i64>,
    /// Who waits for that.
    pub begun: Vec<oneshot::Sender<()>>,
    bytes: usize,
    finished: Vec<(Ticket, u32)>,
}

impl Pending {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.changes.len() >= BATCH_CHANGES || self.bytes >= BATCH_BYTES
    }

    /// Nothing but (perhaps) a cursor.
    pub(super) fn has_no_rows(&self) -> bool {
        self.batch.changes.is_empty() && self.batch.accounts.is_empty()
    }

    pub(super) fn push_change(&mut self, change: Change) {
        if let Change::Upsert(upsert) = &change {
            self.bytes += upsert.record.len();
        }
        self.batch.changes.push(change);
    }

    /// Takes a part in. What can't share a transaction with the rest comes back: commit, then push that.
    ///
    /// In a batch all accounts come before all changes, a deletion takes the account's changes with it, and an
    /// account that was never indexed has no status. So an account's event after one of its changes, a second event
    /// of it, and a change after it went away each begin a new batch: the outcome is that of one by one.
    pub(super) fn push_part(&mut self, part: Part) -> Option<Part> {
        let mut items = part.items.into_iter();
        while let Some(item) = items.next() {
            match item {
                item if self.collides(&item) => {
                    let items = std::iter::once(item).chain(items).collect();
                    return Some(Part { items, ..part });
                }
                Item::Change(change) => self.push_change(change),
                Item::Account(account) => self.batch.accounts.push(account),
            }
        }
        self.finished.push((part.ticket, part.late));
        None
    }

    fn collides(&self, item: &Item) -> bool {
        let mut accounts = self.batch.accounts.iter();
        match item {
            Item::Change(change) => {
                accounts.any(|a| a.status != AccountStatus::Active && a.did == *did_of(change))
            }
            Item::Account(AccountChange { did, .. }) => {
                accounts.any(|a| a.did == *did) || self.batch.changes.iter().any(|c| did_of(c) == did)
            }
        }
    }

    /// Closes the batch: moves the watermark over the finished parts and puts the cursor in when it moved.
    /// Must be followed by a commit that is retried until it succeeds.
    pub(super) fn seal(&mut self, watermark: &mut Watermark, source: &str, now: Timestamp) {
        let before = watermark.cursor();
        for (ticket, late) in self.finished.drain(..) {
            watermark.finish(ticket, late);
        }
        let moved = watermark.cursor().filter(|cursor| Some(*cursor) != before);
        // `begin` is our clock's time and never enters the watermark: a clock that is ahead would hold it there.
        if let Some(cursor) = moved.or(self.begin.filter(|_| watermark.cursor().is_none())) {
            self.batch.cursor = Some(StreamCursor { source: source.to_owned(), cursor });
        }
        self.batch.term = self.term.unwrap_or_default();
        self.batch.now = now;
    }
}

pub(super) fn did_of(change: &Change) -> &Did {
    match change {
        Change::Upsert(upsert) => &upsert.did,
        Change::Delete(delete) => &delete.did,
    }
}

#[cfg(test)]
mod tests {
    use crate::atproto::{Nsid, RecordKey, Tid};
    use crate::store::index::Delete;

    use super::*;

    fn did(name: &str) -> Did {
        Did::try_from(format!("did:plc:{name}").as_str()).unwrap()
    }

    fn delete(name: &str) -> Item {
        Item::Change(Change::Delete(Delete {
            did: did(name),
            collection: Nsid::try_from("app.example.note").unwrap(),
            rkey: RecordKey::try_from("self").unwrap(),
            rev: Tid::default(),
        }))
    }

    fn account(name: &str, status: AccountStatus) -> Item {
        Item::Account(AccountChange { did: did(name), status })
    }

    #[test]
    fn an_account_event_after_a_change_of_its_repo_begins_a_new_batch() {
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, time_us: Some(9) };
        let items = vec![
            delete("a"),
            account("b", AccountStatus::Active),
            delete("b"),
            account("a", AccountStatus::Deleted),
            delete("c"),
        ];
        let mut watermark = Watermark::default();
        let mut first = Pending::new();
        let rest = first.push_part(Part { ticket, late: 0, items }).unwrap();
        first.seal(&mut watermark, "jetstream", Timestamp(1));
        assert_eq!((first.batch.changes.len(), first.batch.accounts.len()), (2, 1));
        assert_eq!(first.batch.cursor, None, "the chunk isn't finished");

        let mut second = Pending::new();
        assert!(second.push_part(rest).is_none());
        second.seal(&mut watermark, "jetstream", Timestamp(1));
        assert_eq!((second.batch.changes.len(), second.batch.accounts.len()), (1, 1));
        assert_eq!(second.batch.cursor.as_ref().map(|c| c.cursor), Some(9));
    }

    #[test]
    fn two_events_of_one_account_are_two_batches() {
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, time_us: None };
        let items = vec![account("a", AccountStatus::Deleted), account("a", AccountStatus::Active)];
        let mut pending = Pending::new();
        assert_eq!(pending.push_part(Part { ticket, late: 0, items }).unwrap().items.len(), 1);
    }

    #[test]
    fn what_an_account_writes_after_it_went_away_is_another_batch() {
        for status in [AccountStatus::Deleted, AccountStatus::Deactivated] {
            let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, time_us: None };
            let items = vec![account("a", status), delete("b"), delete("a")];
            let mut pending = Pending::new();
            assert_eq!(pending.push_part(Part { ticket, late: 0, items }).unwrap().items.len(), 1);
        }
    }
}
