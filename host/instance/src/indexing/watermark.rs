//! Computes the cursor: the time up to which every chunk is complete.
//!
//! The parts of a chunk arrive at the writer in any order. The cursor may move past a chunk only when every part of it,
//! and of all chunks before it, is committed or in the batch being committed (invariant "data before cursor").

use std::collections::BTreeMap;

use belvedere_storage::store::lease::Term;

/// Names the chunk of a part. The term and number identify the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Each term numbers its own chunks.
    pub term: Term,
    /// Number of the chunk in its term; counts up from 0 without gaps.
    pub chunk: u64,
    /// The number of slices that the chunk was split into; each arrives as a part.
    pub parts: u32,
    pub reach: Reach,
}

/// The new cursors after a chunk, in times of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// Up to here no event is missing; `None` when the chunk does not move the cursor.
    pub events_until: Option<i64>,
    /// Up to here no commit is missing.
    pub commits_until: Option<i64>,
    /// The server's times have gone back, and the cursor with them.
    pub is_rewound: bool,
}

impl Reach {
    /// Adds what follows.
    fn advance(&mut self, next: Self) {
        if next.is_rewound {
            *self = next;
        } else {
            // Never goes back: after a rewind, the stream replays events that are already committed.
            self.events_until = self.events_until.max(next.events_until);
            self.commits_until = self.commits_until.max(next.commits_until);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Watermark {
    /// The lowest chunk that isn't complete.
    next: u64,
    /// By chunk: how many parts are missing, and how far it reaches. Only chunks of which a part has arrived.
    open: BTreeMap<u64, (u32, Reach)>,
    reached: Reach,
}

impl Watermark {
    /// Counts one finished part. `deferred` more parts of its slice are still to come.
    pub(super) fn finish(&mut self, ticket: Ticket, deferred: u32) {
        if ticket.chunk < self.next {
            return;
        }
        let (missing, _) = self.open.entry(ticket.chunk).or_insert((ticket.parts.max(1), ticket.reach));
        *missing = (*missing + deferred).saturating_sub(1);
        while let Some(entry) = self.open.first_entry() {
            if *entry.key() != self.next || entry.get().0 > 0 {
                break;
            }
            let (_, reach) = entry.remove();
            self.reached.advance(reach);
            self.next += 1;
        }
    }

    /// The time of the last chunk before which every chunk is complete.
    pub(super) fn cursor(&self) -> Option<i64> {
        self.reached.events_until
    }

    /// Up to here no commit is missing before the cursor.
    pub(super) fn commits_until(&self) -> Option<i64> {
        self.reached.commits_until
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reach(time: i64) -> Reach {
        Reach { events_until: Some(time), ..Reach::default() }
    }

    fn ticket(chunk: u64, parts: u32, time: i64) -> Ticket {
        Ticket { term: Term::ALONE, chunk, parts, reach: reach(time) }
    }

    #[test]
    fn waits_for_every_part_and_every_earlier_chunk() {
        let mut mark = Watermark::default();
        mark.finish(ticket(1, 1, 20), 0);
        assert_eq!(mark.cursor(), None);
        mark.finish(ticket(0, 2, 10), 0);
        assert_eq!(mark.cursor(), None);
        mark.finish(ticket(0, 2, 10), 0);
        assert_eq!(mark.cursor(), Some(20));
    }

    #[test]
    fn never_goes_back_and_skips_chunks_without_time() {
        let mut mark = Watermark::default();
        mark.finish(ticket(0, 1, 100), 0);
        mark.finish(ticket(1, 1, 50), 0);
        mark.finish(Ticket { reach: Reach::default(), ..ticket(2, 1, 0) }, 0);
        assert_eq!(mark.cursor(), Some(100));
        mark.finish(ticket(3, 1, 101), 0);
        assert_eq!(mark.cursor(), Some(101));
        mark.finish(Ticket { reach: Reach { is_rewound: true, ..reach(60) }, ..ticket(4, 1, 0) }, 0);
        mark.finish(ticket(5, 1, 61), 0);
        assert_eq!(mark.cursor(), Some(61), "it follows a server whose times went back");
    }

    proptest! {
        /// In whatever order parts finish, the cursor is the time of the last chunk of the finished prefix.
        #[test]
        fn equals_the_finished_prefix(
            parts in proptest::collection::vec(1u32..4, 1..20),
            seed in proptest::collection::vec(any::<u32>(), 60),
        ) {
            let mut queue: Vec<u64> =
                parts.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i as u64, *n as usize)).collect();
            for i in (1..queue.len()).rev() {
                queue.swap(i, seed[i % seed.len()] as usize % (i + 1));
            }
            let mut left = parts.clone();
            let mut mark = Watermark::default();
            for chunk in queue {
                mark.finish(ticket(chunk, parts[chunk as usize], chunk as i64 + 1), 0);
                left[chunk as usize] -= 1;
                let done = left.iter().take_while(|n| **n == 0).count() as i64;
                prop_assert_eq!(mark.cursor().unwrap_or(0), done);
            }
        }
    }

    #[test]
    fn a_part_may_defer_some_of_its_changes() {
        let mut mark = Watermark::default();
        mark.finish(ticket(0, 2, 10), 3);
        mark.finish(ticket(0, 2, 10), 0);
        mark.finish(ticket(1, 1, 20), 0);
        for _ in 0..2 {
            mark.finish(ticket(0, 2, 10), 0);
            assert_eq!(mark.cursor(), None);
        }
        mark.finish(ticket(0, 2, 10), 0);
        assert_eq!(mark.cursor(), Some(20));
    }
}
