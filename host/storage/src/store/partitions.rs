//! Names the partitions of `records` and `record_refs` on PostgreSQL (ADR 78).
//!
//! A plan that PostgreSQL keeps for a partitioned table locks all of its partitions before it reads the one that it needs.
//! So frequent statements name the partition of their collection instead of the table. Lists and queries get its name from
//! their [`Select`](super::select::Select); the texts of other statements are kept by [`PerPartition`].

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
        self.tables()[0]
    }

    /// The table that has the references of the collection's records.
    pub(super) fn record_refs(self) -> &'static str {
        self.tables()[1]
    }

    fn tables(self) -> &'static [&'static str; 2] {
        static NAMES: PerPartition<[String; 2]> =
            PerPartition::new(|Tables { records, record_refs }| [records.clone(), record_refs.clone()]);
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

/// The names of the tables that have the records of a partition and their references.
pub(super) struct Tables {
    pub(super) records: String,
    pub(super) record_refs: String,
}

impl Tables {
    fn of(partition: Partition) -> Self {
        let suffix = partition.suffix();
        Self { records: format!("records{suffix}"), record_refs: format!("record_refs{suffix}") }
    }
}

/// Statements for each partition, written on first use.
#[derive(Debug)]
pub(super) struct PerPartition<T: Texts> {
    write: fn(&Tables) -> T,
    kept: OnceLock<[T::Kept; COUNT + 1]>,
}

impl<T: Texts> PerPartition<T> {
    pub(super) const fn new(write: fn(&Tables) -> T) -> Self {
        Self { write, kept: OnceLock::new() }
    }

    pub(super) fn of(&'static self, partition: Partition) -> &'static T::Kept {
        let kept = self.kept.get_or_init(|| Partition::all().map(|of| (self.write)(&Tables::of(of)).keep()));
        &kept[partition.index()]
    }
}

/// A text, or an array of texts, that lives as long as the process, like the static that it is written for.
pub(super) trait Texts {
    type Kept;

    fn keep(self) -> Self::Kept;
}

impl Texts for String {
    type Kept = &'static str;

    fn keep(self) -> &'static str {
        self.leak()
    }
}

impl<const N: usize> Texts for [String; N] {
    type Kept = [&'static str; N];

    fn keep(self) -> [&'static str; N] {
        self.map(Texts::keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_written_for_each_partition() {
        static JOIN: PerPartition<[String; 2]> = PerPartition::new(|Tables { records, record_refs }| {
            [format!("FROM {records} r JOIN {record_refs} f"), records.clone()]
        });
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
