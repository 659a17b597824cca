//! Counts the records of a repo that were read but can't be indexed. A repo with any is not completed: the job says so,
//! and a retry reads it again.

use std::fmt::Display;

use super::failure::Failure;

/// Characters of a record's name that are kept: a PDS can send megabytes.
const MAX_NAME_CHARS: usize = 200;

#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    count: usize,
    /// The first record, and why it was left out.
    first: Option<(String, String)>,
}

impl LeftOut {
    pub(super) fn add(&mut self, record: impl Display, why: impl Display) {
        self.count += 1;
        self.first.get_or_insert_with(|| {
            (record.to_string().chars().take(MAX_NAME_CHARS).collect(), why.to_string())
        });
    }

    /// Adds what was left out after this.
    pub(super) fn append(&mut self, later: Self) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The failure of the repo, if anything was left out.
    pub(super) fn failure(&self) -> Option<Failure> {
        let (record, why) = self.first.as_ref()?;
        Some(Failure::other(match self.count {
            1 => format!("1 record was left out: {why}: {record}"),
            count => format!("{count} records were left out, the first because {why}: {record}"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_and_the_number_are_named() {
        let mut left_out = LeftOut::default();
        assert!(left_out.is_empty() && left_out.failure().is_none());
        left_out.add("at://a", "it is large");
        assert_eq!(left_out.failure().unwrap().text, "1 record was left out: it is large: at://a");
        left_out.add("at://b", "it is small");
        let text = left_out.failure().unwrap().text;
        assert_eq!(text, "2 records were left out, the first because it is large: at://a");
        assert!(!left_out.is_empty());
        let mut before = LeftOut::default();
        before.append(left_out);
        before.append(before.clone());
        assert_eq!((before.count(), before.failure().unwrap().text.contains("it is large")), (4, true));
    }
}
