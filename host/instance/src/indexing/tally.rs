//! Counts frames, bytes and dropped events locally and adds them to the metrics once per chunk: a call of the metrics
//! recorder per event would cost as much as parsing it.

/// The reason why a frame or an event was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The frame is not JSON, or not a Jetstream event.
    Malformed,
    /// An unknown kind or operation.
    Unknown,
    /// A collection without a record lexicon; wildcard subscriptions deliver those.
    Untracked,
    /// A create or update without a record.
    NoRecord,
    BadDid,
    BadRkey,
    BadRev,
    /// No clock that is about right has made this rev yet.
    FutureRev,
    /// A rev can't have the time of an account event.
    BadTime,
    /// The record is not an object, too large or too deeply nested.
    BadRecord,
    CidMismatch,
    /// A replay of a commit that this host has submitted in the same term.
    Replayed,
}

const REASONS: [(DropReason, &str); 12] = [
    (DropReason::Malformed, "malformed"),
    (DropReason::Unknown, "unknown_kind"),
    (DropReason::Untracked, "untracked_collection"),
    (DropReason::NoRecord, "no_record"),
    (DropReason::BadDid, "bad_did"),
    (DropReason::BadRkey, "bad_rkey"),
    (DropReason::BadRev, "bad_rev"),
    (DropReason::FutureRev, "future_rev"),
    (DropReason::BadTime, "bad_time"),
    (DropReason::BadRecord, "bad_record"),
    (DropReason::CidMismatch, "cid_mismatch"),
    (DropReason::Replayed, "replayed"),
];

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub events: u64,
    pub bytes: u64,
    pub identities: u64,
    dropped: [u64; REASONS.len()],
}

impl Tally {
    pub(super) fn drop(&mut self, why: DropReason) {
        self.dropped[why as usize] += 1;
    }

    #[cfg(test)]
    pub(super) fn dropped(&self, why: DropReason) -> u64 {
        self.dropped[why as usize]
    }

    /// Adds all counts to the metrics and resets them.
    pub(super) fn flush(&mut self) {
        let add = |name: &'static str, n: u64| {
            if n > 0 {
                metrics::counter!(name).increment(n);
            }
        };
        add("belvedere_stream_events_total", self.events);
        add("belvedere_stream_bytes_total", self.bytes);
        add("belvedere_stream_identity_events_total", self.identities);
        for (n, (_, reason)) in self.dropped.iter().zip(REASONS) {
            if *n > 0 {
                metrics::counter!("belvedere_stream_dropped_total", "reason" => reason).increment(*n);
            }
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        for (i, (why, _)) in REASONS.into_iter().enumerate() {
            assert_eq!(why as usize, i);
            let mut tally = Tally::default();
            tally.drop(why);
            assert_eq!(tally.dropped(why), 1);
            tally.flush();
            assert_eq!(tally.dropped(why), 0);
        }
    }
}
