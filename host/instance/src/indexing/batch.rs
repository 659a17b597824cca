//! Gathers changes into a batch, which is committed in one transaction.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::oneshot;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::index::{AccountChange, AccountStatus, Batch, Change, StreamCursor};
use belvedere_storage::store::lease::Term;

use super::change::IndexChange;
use super::message::{LocalAccount, Part, Refused};
use super::watermark::{Ticket, Watermark};

/// Changes at which a batch is full and committed without waiting. The rows of a batch share the index pages they
/// touch: on SQLite, a row costs half as much in a batch of 8,000 as in one of 2,000. Larger batches would delay local
/// writes by a tenth of a second.
const BATCH_CHANGES: usize = 8_000;

/// Bytes of records at which a batch is full: as many as [`BATCH_CHANGES`] small records have, and some tens of milliseconds of
/// the writer. A record of the stream waits for the batch before its own.
const BATCH_BYTES: usize = 4 << 20;

/// Account statuses and repairs at which a batch is full. Each may change all records of its account.
const BATCH_ACCOUNTS: usize = 1_000;

/// A batch being gathered, and the callers to acknowledge when it is committed.
#[derive(Default)]
pub(super) struct PendingBatch {
    pub batch: Batch,
    pub acks: Vec<oneshot::Sender<Refused>>,
    /// The batch's changes that are local writes.
    pub local: Vec<Change>,
    /// The batch's account changes that do not come from the stream.
    pub local_accounts: Vec<AccountChange>,
    /// The term of the batch's changes that come from the stream.
    pub term: Option<Term>,
    /// The cursor to store when the stream has none.
    pub initial_cursor: Option<i64>,
    /// Acknowledged when the initial cursor is committed.
    pub initial_cursor_acks: Vec<oneshot::Sender<()>>,
    bytes: usize,
    finished: Vec<(Ticket, u32)>,
    /// The content that a status or a repair needs to know. Most batches have none, and leave this empty.
    repos: HashMap<Did, Contained>,
    /// Changes that are counted in `repos`.
    counted_changes: usize,
}

/// A batch's content of one repo.
#[derive(Clone, Copy, Debug, Default)]
struct Contained {
    changes: bool,
    status: Option<AccountStatus>,
    repair: bool,
}

impl PendingBatch {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.changes.len() >= BATCH_CHANGES
            || self.bytes >= BATCH_BYTES
            || self.batch.accounts.len() + self.batch.repairs.len() >= BATCH_ACCOUNTS
    }

    /// Whether the batch has no changes; it may have a cursor.
    pub(super) fn has_no_rows(&self) -> bool {
        self.batch.changes.is_empty() && self.batch.accounts.is_empty() && self.batch.repairs.is_empty()
    }

    pub(super) fn push_change(&mut self, change: Change) {
        self.bytes += change.text().map_or(0, Bytes::len);
        self.batch.changes.push(change);
    }

    fn push_status(&mut self, account: AccountChange) {
        self.contained(&account.did).status = Some(account.status);
        self.batch.accounts.push(account);
    }

    fn contained(&mut self, did: &Did) -> &mut Contained {
        self.repos.entry(did.clone()).or_default()
    }

    /// Adds an account change that does not come from the stream. Returns it when it must wait for the next batch, as in
    /// [`PendingBatch::push_part`].
    pub(super) fn push_account(&mut self, local: LocalAccount) -> Option<LocalAccount> {
        if self.collides_with_status(&local.change.did) {
            return Some(local);
        }
        let LocalAccount { change, ack } = local;
        self.local_accounts.push(change.clone());
        self.push_status(change);
        self.acks.push(ack);
        None
    }

    /// Adds a part. Returns the rest of it when a change can't share a transaction with those before it: commit this
    /// batch, then push the rest into the next.
    ///
    /// The store applies a batch's account statuses before its record changes and marks repos for a repair after them,
    /// and both only for accounts that were indexed. So these begin a new batch: an account's status after a record
    /// change of it, a second status, a record change after its account became inactive, and a status or a record
    /// change after a repair. The result is the same as applying the changes one by one.
    pub(super) fn push_part(&mut self, part: Part) -> Option<Part> {
        let mut changes = part.changes.into_iter();
        while let Some(change) = changes.next() {
            match change {
                change if self.collides(&change) => {
                    let changes = std::iter::once(change).chain(changes).collect();
                    return Some(Part { changes, ..part });
                }
                IndexChange::Record(event) => self.push_change(event.change),
                IndexChange::Account(account) => self.push_status(account),
                IndexChange::Repair(did) => {
                    self.contained(&did).repair = true;
                    self.batch.repairs.push(did);
                }
            }
        }
        self.finished.push((part.ticket, part.deferred));
        None
    }

    fn collides(&mut self, change: &IndexChange) -> bool {
        match change {
            IndexChange::Record(_) => {
                if self.repos.is_empty() {
                    return false;
                }
                let is_inactive = |of: &Contained| of.status.is_some_and(|s| s != AccountStatus::Active);
                self.repos.get(change.did()).is_some_and(|of| is_inactive(of) || of.repair)
            }
            IndexChange::Account(AccountChange { did, .. }) => self.collides_with_status(did),
            IndexChange::Repair(_) => false,
        }
    }

    /// Whether a status of the account must wait for the next batch.
    fn collides_with_status(&mut self, did: &Did) -> bool {
        let counted = std::mem::replace(&mut self.counted_changes, self.batch.changes.len());
        for change in &self.batch.changes[counted..] {
            self.repos.entry(change.uri.did.clone()).or_default().changes = true;
        }
        self.repos.get(did).is_some_and(|of| of.changes || of.status.is_some() || of.repair)
    }

    /// Closes the batch: advances the watermark over the finished parts, and adds the cursor if it moved.
    /// Must be followed by a commit that is retried until it succeeds.
    pub(super) fn seal(&mut self, watermark: &mut Watermark, source: &str, now: Timestamp) {
        let before = watermark.cursor();
        for (ticket, deferred) in self.finished.drain(..) {
            watermark.finish(ticket, deferred);
        }
        let moved = watermark.cursor().filter(|cursor| Some(*cursor) != before);
        // `initial_cursor` is our clock's time and never enters the watermark: if our clock is ahead, the cursor could
        // not move until the stream has caught up with it.
        if let Some(cursor) = moved.or(self.initial_cursor.filter(|_| watermark.cursor().is_none())) {
            let (source, commits_until) = (source.to_owned(), watermark.commits_until());
            self.batch.cursor = Some(StreamCursor { source, cursor, commits_until });
        }
        self.batch.term = self.term.unwrap_or_default();
        self.batch.now = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexing::watermark::Reach;
    use crate::indexing::{RecordAction, RecordEvent, testing};
    use belvedere_protocol::atproto::Tid;

    fn did(name: &str) -> Did {
        Did::try_from(format!("did:plc:{name}").as_str()).unwrap()
    }

    fn delete(name: &str) -> IndexChange {
        let change = testing::delete(name, "self", 0);
        IndexChange::Record(RecordEvent { action: RecordAction::Delete, change })
    }

    fn account(name: &str, status: AccountStatus) -> IndexChange {
        IndexChange::Account(AccountChange { did: did(name), status, rev: Tid::default() })
    }

    #[test]
    fn an_account_status_after_a_change_of_its_repo_begins_a_new_batch() {
        let ticket = Ticket {
            term: Term::ALONE,
            chunk: 0,
            parts: 1,
            reach: Reach { events_until: Some(9), ..Reach::default() },
        };
        let changes = vec![
            delete("a"),
            account("b", AccountStatus::Active),
            delete("b"),
            account("a", AccountStatus::Deleted),
            delete("c"),
        ];
        let mut watermark = Watermark::default();
        let mut first = PendingBatch::new();
        let rest = first.push_part(Part { ticket, deferred: 0, changes }).unwrap();
        first.seal(&mut watermark, "jetstream", Timestamp(1));
        assert_eq!((first.batch.changes.len(), first.batch.accounts.len()), (2, 1));
        assert_eq!(first.batch.cursor, None, "the chunk isn't finished");

        let mut second = PendingBatch::new();
        assert!(second.push_part(rest).is_none());
        second.seal(&mut watermark, "jetstream", Timestamp(1));
        assert_eq!((second.batch.changes.len(), second.batch.accounts.len()), (1, 1));
        assert_eq!(second.batch.cursor.as_ref().map(|c| c.cursor), Some(9));
    }

    #[test]
    fn two_statuses_of_one_account_are_two_batches() {
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
        let changes = vec![account("a", AccountStatus::Deleted), account("a", AccountStatus::Active)];
        let mut pending = PendingBatch::new();
        assert_eq!(pending.push_part(Part { ticket, deferred: 0, changes }).unwrap().changes.len(), 1);
    }

    #[test]
    fn a_status_that_is_not_the_streams_waits_for_the_changes_before_it() {
        let local = |name, status| {
            let IndexChange::Account(change) = account(name, status) else { unreachable!() };
            LocalAccount { change, ack: oneshot::channel().0 }
        };
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
        let mut pending = PendingBatch::new();
        assert!(pending.push_account(local("a", AccountStatus::Deleted)).is_none());
        assert!(pending.push_part(Part { ticket, deferred: 0, changes: vec![delete("b")] }).is_none());
        assert!(pending.push_account(local("b", AccountStatus::Deleted)).is_some());
        assert!(pending.push_account(local("a", AccountStatus::Active)).is_some());
        assert_eq!(
            pending
                .push_part(Part { ticket, deferred: 0, changes: vec![delete("a")] })
                .unwrap()
                .changes
                .len(),
            1
        );
        assert_eq!((pending.local_accounts.len(), pending.acks.len()), (1, 1));
    }

    #[test]
    fn a_change_after_its_account_became_inactive_begins_a_new_batch() {
        for status in [AccountStatus::Deleted, AccountStatus::Deactivated] {
            let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
            let changes = vec![account("a", status), delete("b"), delete("a")];
            let mut pending = PendingBatch::new();
            assert_eq!(pending.push_part(Part { ticket, deferred: 0, changes }).unwrap().changes.len(), 1);
        }
    }

    #[test]
    fn statuses_and_repairs_fill_a_batch() {
        let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
        let of = |n: usize| match n % 2 {
            0 => account(&n.to_string(), AccountStatus::Active),
            _ => IndexChange::Repair(did(&n.to_string())),
        };
        let mut pending = PendingBatch::new();
        let changes = (1..BATCH_ACCOUNTS).map(of).collect();
        assert!(pending.push_part(Part { ticket, deferred: 0, changes }).is_none());
        assert!(!pending.is_full());
        assert!(pending.push_part(Part { ticket, deferred: 0, changes: vec![of(0)] }).is_none());
        assert!(pending.is_full());
    }

    #[test]
    fn changes_after_a_repair_of_their_repo_begin_a_new_batch() {
        for (change, rest) in [(delete("a"), 1), (account("a", AccountStatus::Active), 1), (delete("b"), 0)] {
            let ticket = Ticket { term: Term::ALONE, chunk: 0, parts: 1, reach: Reach::default() };
            let changes = vec![delete("a"), IndexChange::Repair(did("a")), change];
            let mut pending = PendingBatch::new();
            assert_eq!(
                pending.push_part(Part { ticket, deferred: 0, changes }).map_or(0, |part| part.changes.len()),
                rest
            );
            assert_eq!(pending.batch.repairs, [did("a")]);
        }
    }
}
