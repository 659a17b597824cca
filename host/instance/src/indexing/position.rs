//! The position up to which the stream has been read, and from which the next subscription continues.

use std::time::Duration;

use belvedere_base::clock::Timestamp;
use belvedere_storage::store::gaps::{Gap, GapReason};

/// Maximum time before the present for which a server is asked for commits. Beyond that, a gap is recorded: a day of
/// the network's account events, which come with the commits, is read in a minute.
const MAX_COMMIT_REPLAY_US: i64 = 24 * 3_600 * 1_000_000;

/// Plausible times of the events of a chunk, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkTimes {
    pub first: i64,
    pub newest: i64,
    pub newest_commit: Option<i64>,
}

/// The position up to which the stream has entered the pipeline. Ahead of the committed cursor by what is queued. Times
/// are those of events, by the clock of a Jetstream server, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The highest time of an event.
    pub events_until: i64,
    /// Up to here no commit is missing. A server may send account events and no commits: so this is the time of the last
    /// commit, or one that a second server has passed too.
    pub commits_until: i64,
    /// The time at which the event at `events_until` was received, by our clock.
    pub seen_at: Timestamp,
    /// `events_until` is our clock's time: the stream had none.
    pub is_own_time: bool,
    /// Connections ended with a message that can't be read and lies before this time; 0 if none did.
    pub skipped_until: i64,
}

impl Position {
    /// The position of a stream that has none: the present.
    pub(super) fn of_own_clock(now: Timestamp) -> Self {
        Self { is_own_time: true, ..Self::at(now.0, now) }
    }

    pub(super) fn at(time_us: i64, seen_at: Timestamp) -> Self {
        Self { events_until: time_us, commits_until: time_us, seen_at, is_own_time: false, skipped_until: 0 }
    }

    /// Moves over a chunk of events that was received now.
    pub(super) fn advance(&mut self, times: ChunkTimes, now: Timestamp) {
        let ChunkTimes { first, newest, newest_commit } = times;
        // Our clock may be ahead of the server's, and nothing from before the start is missing.
        let (events, commits) =
            if self.is_own_time { (newest, first) } else { (self.events_until, self.commits_until) };
        let commits_until = commits.max(newest_commit.unwrap_or(commits));
        let skipped_until = self.skipped_until;
        *self = Self { commits_until, skipped_until, ..Self::at(events.max(newest), now) };
    }

    /// The time whose events are requested first. A time is not an exact position: an event that a newer one overtook
    /// within the server has an earlier time and may not have been sent. So the cursor goes back by `rewind`; what is
    /// replayed changes nothing. After `since_commit` everything since the last commit is requested.
    pub(super) fn request(&self, since_commit: bool, rewind: Duration) -> i64 {
        // A first start wants nothing from before.
        if self.is_own_time {
            return self.events_until;
        }
        let cursor = self.wanted_from(since_commit).saturating_sub(rewind.as_micros() as i64);
        // Skipped events must not come again.
        cursor.max(self.skipped_until).max(1)
    }

    /// Everything before this time is in the pipeline.
    pub(super) fn wanted_from(&self, since_commit: bool) -> i64 {
        if since_commit { self.commits_until.min(self.events_until) } else { self.events_until }
    }

    /// Moves `commits_until` to what a server is asked for at most. Returns the gap that this leaves.
    pub(super) fn bound_replay(&mut self) -> Option<Gap> {
        let earliest = self.events_until.saturating_sub(MAX_COMMIT_REPLAY_US);
        let from = self.commits_until;
        self.commits_until = from.max(earliest);
        (from < earliest).then_some(Gap {
            reason: GapReason::NoCommits,
            from: Timestamp(from),
            to: Timestamp(earliest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000;
    const REWIND: Duration = Duration::from_secs(5);

    #[test]
    fn another_server_is_asked_for_what_followed_the_last_commit() {
        let commits_until = NOW - 60_000_000;
        let mut position = Position { commits_until, ..Position::at(NOW, Timestamp(NOW)) };
        assert_eq!(position.request(false, REWIND), NOW - 5_000_000);
        assert_eq!(position.request(true, REWIND), NOW - 65_000_000);
        assert_eq!(position.bound_replay(), None);
        position.skipped_until = NOW;
        assert_eq!(position.request(true, REWIND), NOW, "what was skipped is not requested again");
        let times = ChunkTimes { first: NOW, newest: NOW + 2_000_000, newest_commit: None };
        position.advance(times, Timestamp(NOW));
        assert_eq!(position.request(false, REWIND), NOW, "nor after the next event");
        assert_eq!(
            Position::of_own_clock(Timestamp(NOW)).request(true, REWIND),
            NOW,
            "a first start begins now"
        );
    }

    #[test]
    fn a_replay_is_bounded_and_what_is_left_out_is_a_gap() {
        let from = NOW - 2 * MAX_COMMIT_REPLAY_US;
        let mut position = Position { commits_until: from, ..Position::at(NOW, Timestamp(NOW)) };
        let to = NOW - MAX_COMMIT_REPLAY_US;
        let gap = Gap { reason: GapReason::NoCommits, from: Timestamp(from), to: Timestamp(to) };
        assert_eq!(position.bound_replay(), Some(gap));
        assert_eq!((position.commits_until, position.bound_replay()), (to, None));
    }
}
