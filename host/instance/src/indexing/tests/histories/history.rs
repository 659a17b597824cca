//! The changes of one repo upstream, and those that reach the index, with their order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::indexing::tests::BASE;
use belvedere_storage::store::index::AccountStatus;

/// Microseconds between two steps: account events have a time in milliseconds.
const STEP: u64 = 1_000;

const KEYS: u8 = 4;

/// One step of a history, as it is generated.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(u8),
    Delete(u8),
    /// Records appear and vanish without a commit in the stream: the account was moved, or a server dropped events.
    Import(u8),
    Vanish(u8),
    Account(AccountStatus),
    Identity,
    /// A backfill reads the repo's rev, its PDS answers with a page, and the page is stored.
    ReadRev,
    ReadPage,
    StorePage,
    /// The last events are delivered again: the server went back after a crash, or to another Jetstream server.
    Again(u8),
    /// The next commit is delivered after the one that follows it, but before a page that is stored later.
    Late,
}

/// An event of the stream. Times and revs are microseconds, a value names the step that wrote it.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Put { key: u8, rev: u64, value: u64 },
    Delete { key: u8, rev: u64 },
    Account { status: AccountStatus, at: u64 },
    Identity,
    Sync { rev: u64 },
}

/// All records of the repo, listed after its rev was read.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub rev: u64,
    pub records: BTreeMap<u8, u64>,
}

#[derive(Clone, Debug)]
pub(super) enum Delivery {
    Event(Event),
    Page(Page),
}

/// The repo at its PDS.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    pub records: BTreeMap<u8, u64>,
    pub status: AccountStatus,
    rev: u64,
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    use AccountStatus::{Active, Deactivated, Deleted, Suspended, TakenDown};
    let status = prop::sample::select(vec![
        Active,
        Active,
        Active,
        Deactivated,
        TakenDown,
        Suspended,
        Deleted,
        Deleted,
    ]);
    prop_oneof![
        8 => (0..KEYS).prop_map(Step::Put),
        4 => (0..KEYS).prop_map(Step::Delete),
        1 => (0..KEYS).prop_map(Step::Import),
        1 => (0..KEYS).prop_map(Step::Vanish),
        4 => status.prop_map(Step::Account),
        1 => Just(Step::Identity),
        2 => Just(Step::ReadRev),
        2 => Just(Step::ReadPage),
        2 => Just(Step::StorePage),
        2 => (1..6_u8).prop_map(Step::Again),
        1 => Just(Step::Late),
    ]
}

/// Plays the steps. Returns what reaches the index, and the repo as it is at the end.
pub(super) fn play(steps: &[Step]) -> (Vec<Delivery>, Upstream) {
    let upstream = Upstream { records: BTreeMap::new(), status: AccountStatus::Active, rev: 0 };
    let mut player = Player {
        upstream,
        out: Vec::new(),
        is_late: false,
        late: None,
        read: None,
        page: None,
        unseen: None,
    };
    // The index ignores accounts before their first record.
    player.step(0, &Step::Put(0));
    for (n, step) in (1..).zip(steps) {
        player.step(n, step);
    }
    player.out.extend(player.late.take().map(Delivery::Event));
    if player.unseen.is_some() {
        // The repair of a repo that was marked.
        for (n, step) in (steps.len() as u64 + 1..).zip([Step::ReadRev, Step::ReadPage, Step::StorePage]) {
            player.step(n, &step);
        }
    }
    (player.out, player.upstream)
}

struct Player {
    upstream: Upstream,
    out: Vec<Delivery>,
    /// Whether the next commit is held back.
    is_late: bool,
    late: Option<Event>,
    /// The rev that a backfill has read, and the page that it got.
    read: Option<u64>,
    page: Option<Page>,
    /// The rev of the last change that is not in the stream and on no stored page.
    unseen: Option<u64>,
}

impl Player {
    fn step(&mut self, n: u64, step: &Step) {
        let rev = BASE as u64 + n * STEP;
        let exists = self.upstream.status != AccountStatus::Deleted;
        match step {
            Step::Put(key) if exists => {
                self.upstream.records.insert(*key, n);
                self.commit(rev, Event::Put { key: *key, rev, value: n });
            }
            Step::Delete(key) if self.upstream.records.remove(key).is_some() => {
                self.commit(rev, Event::Delete { key: *key, rev });
            }
            Step::Import(key) if exists => {
                self.upstream.records.insert(*key, n);
                self.change_unseen(rev);
            }
            Step::Vanish(key) if self.upstream.records.remove(key).is_some() => self.change_unseen(rev),
            Step::Account(status) => {
                if *status == AccountStatus::Deleted {
                    self.upstream.records.clear();
                    self.unseen = None;
                }
                self.upstream.status = *status;
                self.out.push(Delivery::Event(Event::Account { status: *status, at: rev }));
            }
            Step::Identity => self.out.push(Delivery::Event(Event::Identity)),
            Step::ReadRev => self.read = exists.then_some(self.upstream.rev),
            Step::ReadPage if exists => {
                let records = self.upstream.records.clone();
                self.page = self.read.map(|rev| Page { rev, records });
            }
            Step::StorePage => {
                if let Some(page) = self.page.take() {
                    self.out.extend(self.late.take().map(Delivery::Event));
                    self.unseen = self.unseen.filter(|unseen| *unseen > page.rev);
                    self.out.push(Delivery::Page(page));
                }
            }
            Step::Again(back) => {
                let events = self.out.iter().filter(|one| matches!(one, Delivery::Event(_))).cloned();
                let events: Vec<_> = events.collect();
                self.out.extend_from_slice(&events[events.len().saturating_sub((*back).into())..]);
            }
            Step::Late => self.is_late = true,
            _ => {}
        }
    }

    fn change_unseen(&mut self, rev: u64) {
        self.upstream.rev = rev;
        self.unseen = Some(rev);
        self.out.push(Delivery::Event(Event::Sync { rev }));
    }

    fn commit(&mut self, rev: u64, event: Event) {
        self.upstream.rev = rev;
        if std::mem::take(&mut self.is_late) && self.late.is_none() {
            self.late = Some(event);
            return;
        }
        self.out.push(Delivery::Event(event));
        self.out.extend(self.late.take().map(Delivery::Event));
    }
}
