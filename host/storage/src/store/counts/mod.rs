//! Keeps the numbers of records and of links exact, in the transactions that change them (ADR 164), and in shards the notes of changes.
//!
//! A transaction that inserts or deletes records or references calls [`Counting::begin_counting`] before it does so, notes
//! each of these rows in its [`Changes`], and calls [`Counting::count`] before it commits. One that changes the status of an account
//! calls [`Counting::announce_counting`] and [`Counting::count_accounts`] as well, before it changes any record.
//!
//! `record_counts` has all records of a collection, and of these the ones of hidden accounts. `link_counts` has the same of the links to
//! a target, for the targets that [`super::index::link_counts`] has begun to count.
//!
//! Triggers count for transactions that do not announce that they do: those of a host of the version before, and statements of an operator.

pub(super) mod postgres;
pub(super) mod sqlite;

use std::collections::BTreeMap;

use super::change_notes::Note;
use super::partitions::Partition;

/// A row of `record_refs` whose target is counted.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct CountedLink {
    pub target: String,
    pub collection_id: i64,
    /// `None` until the record is read again, see [`super::index::unread`]; so are its paths.
    pub did_id: Option<i64>,
    pub paths: Option<String>,
}

/// The rows that a transaction inserts and deletes, counted together.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// By collection and account.
    records: BTreeMap<(i64, i64), i64>,
    links: BTreeMap<LinkKey, i64>,
    /// The records themselves, in shards.
    pub(super) notes: Vec<Note>,
}

/// A part of `link_counts`, a target, a collection, a path and an account. The empty path has all links. In this order all hosts lock
/// rows, so that two of them can't deadlock.
type LinkKey = (Partition, String, i64, String, Option<i64>);

impl Changes {
    pub(super) fn insert_record(&mut self, collection_id: i64, did_id: i64) {
        *self.records.entry((collection_id, did_id)).or_default() += 1;
    }

    pub(super) fn delete_records(&mut self, collection_id: i64, did_id: i64, number: i64) {
        *self.records.entry((collection_id, did_id)).or_default() -= number;
    }

    /// `partition`: that of the references.
    pub(super) fn insert_links(
        &mut self,
        partition: Partition,
        links: impl IntoIterator<Item = CountedLink>,
    ) {
        for link in links {
            self.add_link(partition, link, 1);
        }
    }

    pub(super) fn delete_links(
        &mut self,
        partition: Partition,
        links: impl IntoIterator<Item = CountedLink>,
    ) {
        for link in links {
            self.add_link(partition, link, -1);
        }
    }

    fn add_link(&mut self, partition: Partition, link: CountedLink, number: i64) {
        let part = partition.of_other_tables();
        let CountedLink { target, collection_id, did_id, paths } = link;
        for path in paths.iter().flat_map(|paths| paths.split_ascii_whitespace()) {
            let key = (part, target.clone(), collection_id, path.to_owned(), did_id);
            *self.links.entry(key).or_default() += number;
        }
        *self.links.entry((part, target, collection_id, String::new(), did_id)).or_default() += number;
    }

    /// Forgets what was inserted and deleted again.
    fn without_zeros(mut self) -> Self {
        self.records.retain(|_, number| *number != 0);
        self.links.retain(|_, number| *number != 0);
        self
    }
}

/// An account whose status has changed between active and any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccountFlip {
    pub id: i64,
    pub is_hidden: bool,
}

impl AccountFlip {
    /// `None`: it was as hidden before as it is now.
    pub(super) fn of(id: i64, was_hidden: bool, is_hidden: bool) -> Option<Self> {
        (was_hidden != is_hidden).then_some(Self { id, is_hidden })
    }

    /// The sign of its records in the numbers of hidden ones.
    fn sign(self) -> i64 {
        if self.is_hidden { 1 } else { -1 }
    }
}

/// A transaction that counts.
pub(super) trait Counting {
    /// Keeps the triggers from counting until the transaction ends. Enough to change statuses.
    async fn announce_counting(&mut self) -> Result<(), sqlx::Error>;

    /// The same, and keeps statuses and the set of counted targets from changing until the transaction ends: the statements
    /// that follow see what others have committed before. Must not be followed by [`Self::count_accounts`].
    async fn begin_counting(&mut self) -> Result<(), sqlx::Error>;

    /// Counts the records and links of accounts that are hidden or shown from now on. Waits for transactions that change records,
    /// and keeps others from beginning. `parts`: all of the database.
    async fn count_accounts(&mut self, flips: &[AccountFlip], parts: &[Partition])
    -> Result<(), sqlx::Error>;

    /// Adds the changes to the numbers. The transaction writes no more records afterwards.
    async fn count(&mut self, changes: Changes) -> Result<(), sqlx::Error>;
}

/// Makes the numbers of records from the records, in a database that nothing else uses.
pub(super) const RECOUNT: [&str; 2] = [
    "DELETE FROM record_counts",
    "INSERT INTO record_counts (collection_id, slot, records, hidden) SELECT r.collection_id, 0, count(*), count(d.id) \
     FROM records r LEFT JOIN dids d ON d.id = r.did_id AND d.status <> 0 GROUP BY r.collection_id",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn link(target: &str, paths: Option<&str>) -> CountedLink {
        let (target, paths) = (target.to_owned(), paths.map(str::to_owned));
        CountedLink { target, collection_id: 1, did_id: Some(7), paths }
    }

    #[test]
    fn each_place_of_a_link_is_counted_and_what_comes_back_is_not() {
        let mut changes = Changes::default();
        changes.delete_links(Partition::Numbered(1), [link("a", Some("x y")), link("b", None)]);
        changes.insert_links(Partition::Numbered(2), [link("a", Some("x z"))]);
        changes.insert_record(1, 7);
        changes.insert_record(1, 8);
        changes.delete_records(1, 7, 1);
        let changes = changes.without_zeros();
        let links: Vec<_> =
            changes.links.iter().map(|((_, target, _, path, _), n)| (&**target, &**path, *n)).collect();
        assert_eq!(links, [("a", "y", -1), ("a", "z", 1), ("b", "", -1)]);
        assert_eq!(changes.records.into_iter().collect::<Vec<_>>(), [((1, 8), 1)]);
    }
}
