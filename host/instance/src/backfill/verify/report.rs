//! The result of a comparison.

use std::collections::HashSet;

use serde::Serialize;

/// Addresses that a report lists for each kind. The counts are complete.
const MAX_LISTED: usize = 1_000;

/// Differences of one repo that are kept for its second look. Beyond it, all that the second look finds count.
const MAX_KEPT: usize = 100_000;

/// The kind of a record's difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The PDS has it, and the index has not, or hides its account.
    Missing,
    /// The index has another version.
    Stale,
    /// The index has it, and the PDS has not.
    Extra,
}

/// A difference: how, and the AT URI of the record, or of the repo if its account differs.
pub(super) type Difference = (Kind, String);

/// The findings of a look at a repo.
#[derive(Debug)]
pub(super) enum Seen {
    Compared {
        /// Records of the PDS.
        records: u64,
        differences: Vec<Difference>,
    },
    /// It changed after the position of the stream.
    Behind(String),
    NotReached(String),
}

impl Seen {
    /// The number of things that the PDS has given for it, as backfills count.
    pub(super) fn given(&self, collections: usize) -> u64 {
        match self {
            Self::Compared { records, .. } => records + 1 + collections as u64,
            Self::Behind(_) | Self::NotReached(_) => 1,
        }
    }
}

/// The findings of a repo's earlier look.
#[derive(Debug)]
pub(super) struct Before {
    differences: HashSet<Difference>,
    is_cut: bool,
}

/// Whether a repo has to be looked at again.
#[derive(Debug)]
pub(super) enum Verdict {
    Final,
    Again(Option<Before>),
}

/// The AT URIs of one kind of difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    pub count: u64,
    /// At most a thousand.
    pub uris: Vec<String>,
}

/// The repos that could not be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotReached {
    pub count: u64,
    /// AT URIs of repos, or the relay, with the reasons. At most a thousand.
    pub list: Vec<(String, String)>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Repos that were compared.
    pub repos: u64,
    /// Records of the PDSs that were compared.
    pub records: u64,
    pub missing: Differences,
    pub stale: Differences,
    pub extra: Differences,
    pub not_reached: NotReached,
}

impl Differences {
    fn add(&mut self, uri: String) {
        self.count += 1;
        if self.uris.len() < MAX_LISTED {
            self.uris.push(uri);
        }
    }
}

impl NotReached {
    pub(super) fn add(&mut self, what: &str, why: &str) {
        self.count += 1;
        if self.list.len() < MAX_LISTED {
            self.list.push((what.to_owned(), why.to_owned()));
        }
    }
}

impl Report {
    /// Whether the index differs from what the PDSs have.
    pub fn has_differences(&self) -> bool {
        self.missing.count + self.stale.count + self.extra.count > 0
    }

    /// Judges a look at the repo `uri` by the one before it.
    pub(super) fn judge(
        &mut self,
        (uri, seen): (String, Seen),
        before: Option<Before>,
        is_last: bool,
    ) -> Verdict {
        match seen {
            Seen::Behind(_) if !is_last => return Verdict::Again(before),
            Seen::Behind(why) | Seen::NotReached(why) => self.not_reached.add(&uri, &why),
            Seen::Compared { records, differences } => {
                let confirmed: Vec<_> = match &before {
                    None if !differences.is_empty() && !is_last => {
                        return Verdict::Again(Some(Before::of(differences)));
                    }
                    None if !differences.is_empty() => {
                        self.not_reached.add(&uri, "it changes all the time");
                        return Verdict::Final;
                    }
                    None => Vec::new(),
                    Some(before) => differences.into_iter().filter(|found| before.has(found)).collect(),
                };
                self.repos += 1;
                self.records += records;
                for (kind, uri) in confirmed {
                    match kind {
                        Kind::Missing => self.missing.add(uri),
                        Kind::Stale => self.stale.add(uri),
                        Kind::Extra => self.extra.add(uri),
                    }
                }
            }
        }
        Verdict::Final
    }
}

impl Before {
    fn of(differences: Vec<Difference>) -> Self {
        let is_cut = differences.len() > MAX_KEPT;
        Self { differences: differences.into_iter().take(MAX_KEPT).collect(), is_cut }
    }

    fn has(&self, difference: &Difference) -> bool {
        self.is_cut || self.differences.contains(difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(differences: &[(Kind, &str)]) -> Seen {
        let differences = differences.iter().map(|(kind, uri)| (*kind, (*uri).to_owned())).collect();
        Seen::Compared { records: 3, differences }
    }

    fn judge(report: &mut Report, looks: Vec<Seen>) {
        let (mut before, count) = (None, looks.len());
        for (n, seen) in looks.into_iter().enumerate() {
            match report.judge(("at://did:plc:a".to_owned(), seen), before.take(), n == 2) {
                Verdict::Final => return assert_eq!(n + 1, count, "looked at too often"),
                Verdict::Again(next) => before = next,
            }
        }
        panic!("no verdict");
    }

    #[test]
    fn only_what_two_looks_find_is_a_difference() {
        use Kind::{Extra, Missing, Stale};
        let mut report = Report::default();
        judge(&mut report, vec![compared(&[])]);
        judge(&mut report, vec![compared(&[(Missing, "a"), (Stale, "b")]), compared(&[])]);
        assert!(!report.has_differences());
        let found = [(Missing, "a"), (Stale, "b"), (Extra, "c")];
        judge(&mut report, vec![compared(&found), compared(&[(Missing, "a"), (Missing, "b"), (Extra, "c")])]);
        assert_eq!((report.repos, report.records), (3, 9));
        assert_eq!(
            (&*report.missing.uris, report.stale.count, report.extra.count),
            (&["a".to_owned()][..], 0, 1)
        );
    }

    #[test]
    fn a_repo_that_the_stream_has_not_reached_is_not_compared() {
        let behind = || Seen::Behind("behind".to_owned());
        let mut report = Report::default();
        judge(&mut report, vec![behind(), compared(&[(Kind::Stale, "a")]), compared(&[(Kind::Stale, "a")])]);
        judge(&mut report, vec![compared(&[(Kind::Stale, "b")]), behind(), compared(&[(Kind::Stale, "b")])]);
        assert_eq!(report.stale.uris, ["a", "b"]);
        judge(&mut report, vec![behind(), behind(), behind()]);
        judge(&mut report, vec![behind(), behind(), compared(&[(Kind::Extra, "c")])]);
        judge(&mut report, vec![Seen::NotReached("timeout".to_owned())]);
        let reasons: Vec<_> = report.not_reached.list.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(reasons, ["behind", "it changes all the time", "timeout"]);
        assert_eq!((report.not_reached.count, report.extra.count), (3, 0));
    }

    #[test]
    fn lists_are_bounded_and_counts_are_complete() {
        let mut report = Report::default();
        let many: Vec<_> = (0..MAX_KEPT + 5).map(|n| (Kind::Extra, format!("at://{n}"))).collect();
        let seen = || Seen::Compared { records: 0, differences: many.clone() };
        judge(&mut report, vec![seen(), seen()]);
        assert_eq!(report.extra.count, many.len() as u64);
        assert_eq!(report.extra.uris.len(), MAX_LISTED);
    }
}
