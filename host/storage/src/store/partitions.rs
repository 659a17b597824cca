//! Names the partitions of `records` and `record_refs` on PostgreSQL (ADR 78).
//!
//! A plan that PostgreSQL keeps for a partitioned table locks all of its partitions before it reads the one that it needs.
//! So frequent statements name the partition of their collection instead of the table. They are templates with
//! `{records}` and `{record_refs}` in place of the names, of which [`PerPartition`] makes the statements once.

use std::sync::OnceLock;

use super::StoreError;

/// The partitions of each of the two tables; the migration that creates them has the same number.
const COUNT: usize = 16;

/// The partition of a collection in both tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Partition(Option<u8>);

impl Partition {
    /// The whole tables: on SQLite they have no partitions.
    pub(super) const WHOLE: Self = Self(None);

    /// The partition with the number that [`partition_number`] has found.
    pub(super) fn of_number(number: i32) -> Result<Self, StoreError> {
        match u8::try_from(number) {
            Ok(number) if usize::from(number) < COUNT => Ok(Self(Some(number))),
            _ => Err(StoreError::Corrupt(format!("records has a partition {number}"))),
        }
    }

    /// The table that has the collection's records.
    pub(super) fn records(self) -> &'static str {
        static NAMES: PerPartition<&'static str> = PerPartition::new("{records}");
        NAMES.of(self)
    }

    fn index(self) -> usize {
        self.0.map_or(0, |number| usize::from(number) + 1)
    }

    fn all() -> [Self; COUNT + 1] {
        std::array::from_fn(|index| Self(index.checked_sub(1).and_then(|number| u8::try_from(number).ok())))
    }

    fn suffix(self) -> String {
        self.0.map_or_else(String::new, |number| format!("_{number:02}"))
    }
}

/// An expression for the number of the partition of the collection whose id `$id` is, on PostgreSQL.
macro_rules! partition_number {
    ($id:literal) => {
        concat!(
            "(SELECT n FROM generate_series(0, 15) AS n \
             WHERE satisfies_hash_partition('records'::regclass, 16, n, ",
            $id,
            "))"
        )
    };
}
pub(super) use partition_number;
const _: () = assert!(COUNT == 16, "the expression contains this number");

/// Statements for each partition, made from templates on first use.
#[derive(Debug)]
pub(super) struct PerPartition<T> {
    templates: T,
    statements: OnceLock<[T; COUNT + 1]>,
}

impl<T: Templates> PerPartition<T> {
    pub(super) const fn new(templates: T) -> Self {
        Self { templates, statements: OnceLock::new() }
    }

    pub(super) fn of(&'static self, partition: Partition) -> &'static T {
        let statements = self.statements.get_or_init(|| Partition::all().map(|of| self.templates.fill(of)));
        &statements[partition.index()]
    }
}

/// A template, or an array of them.
pub(super) trait Templates {
    fn fill(&self, partition: Partition) -> Self;
}

impl Templates for &'static str {
    /// The text lives as long as the process, like the static that it is made for.
    fn fill(&self, partition: Partition) -> Self {
        let suffix = partition.suffix();
        let text = self.replace("{records}", &format!("records{suffix}"));
        text.replace("{record_refs}", &format!("record_refs{suffix}")).leak()
    }
}

impl<T: Templates, const N: usize> Templates for [T; N] {
    fn fill(&self, partition: Partition) -> Self {
        self.each_ref().map(|template| template.fill(partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_becomes_a_statement_for_each_partition() {
        static JOIN: PerPartition<[&str; 2]> =
            PerPartition::new(["FROM {records} r JOIN {record_refs} f", "{records}"]);
        let of = |number| JOIN.of(Partition::of_number(number).unwrap());
        assert_eq!(of(3), &["FROM records_03 r JOIN record_refs_03 f", "records_03"]);
        assert_eq!(of(15)[1], "records_15");
        assert_eq!(JOIN.of(Partition::WHOLE), &["FROM records r JOIN record_refs f", "records"]);
        assert!(std::ptr::eq(of(3), of(3)), "the texts are made once");
        assert_eq!(of(3)[1], Partition::of_number(3).unwrap().records());
    }

    #[test]
    fn there_are_sixteen() {
        assert!([-1, 16, 255, 256].into_iter().all(|number| Partition::of_number(number).is_err()));
        let all = Partition::all();
        assert_eq!((all[0], all[1], all[16]), (Partition::WHOLE, Partition(Some(0)), Partition(Some(15))));
    }
}
