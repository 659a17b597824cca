//! Counters, added up locally and handed to the metrics recorder once per chunk: a recorder call per event would
//! cost as much as parsing it.

/// Why an event did not become a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// Not JSON, or not the shape of an event.
    Malformed,
    /// A kind or operation we don't know.
    Unknown,
    /// A collection that no record lexicon names (wildcard subscriptions bring those).
    Untracked,
    /// A create or update without a record.
    NoRecord,
    BadDid,
    BadRkey,
    BadRev,
    /// Not an object, too large or too deep.
    BadRecord,
    CidMismatch,
}

const REASONS: [(Dropped, &str); 9] = [
    (Dropped::Malformed, "malformed"),
    (Dropped::Unknown, "unknown_kind"),
    (Dropped::Untracked, "untracked_collection"),
    (Dropped::NoRecord, "no_record"),
    (Dropped::BadDid, "bad_did"),
    (Dropped::BadRkey, "bad_rkey"),
    (Dropped::BadRev, "bad_rev"),
    (Dropped::BadRecord, "bad_record"),
    (Dropped::CidMismatch, "cid_mismatch"),
];

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub events: u64,
    pub bytes: u64,
    pub identities: u64,
    dropped: [u64; REASONS.len()],
}

impl Tally {
    pub(super) fn drop(&mut self, why: Dropped) {
        self.dropped[why as usize] += 1;
    }

    #[cfg(test)]
    pub(super) fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why as usize]
    }

    /// Adds everything to the metrics and starts over.
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
